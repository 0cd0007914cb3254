package reader

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries"
)

func TestMeasurementIsADocumentAsInTheView(t *testing.T) {
	s, _ := newFake(testOptions, bson.D{{Key: "sensor", Value: "s-17"}}, []int{7})
	for m, err := range s.Find(t.Context(), Query{}) {
		if err != nil {
			t.Fatal(err)
		}
		const want = `{"t": {"$date":{"$numberLong":"420000"}},"m": {"sensor": "s-17"},"minute": {"$numberInt":"7"},"wind": {"speed": {"$numberDouble":"3.5"},"from": "N"}}`
		if got := m.Document(); got.Validate() != nil || got.String() != want {
			t.Errorf("got %s\nwant %s", got, want)
		}
		var v struct {
			At   time.Time `bson:"t"`
			Meta struct {
				Sensor string `bson:"sensor"`
			} `bson:"m"`
			Minute int `bson:"minute"`
			Wind   struct {
				Speed float64 `bson:"speed"`
			} `bson:"wind"`
		}
		if err := m.Decode(&v); err != nil {
			t.Fatal(err)
		}
		if !v.At.Equal(m.Time) || v.Meta.Sensor != "s-17" || v.Minute != 7 || v.Wind.Speed != 3.5 {
			t.Errorf("decoded %+v", v)
		}
		if err := m.Decode(&struct{ Minute bson.ObjectID }{}); err == nil {
			t.Error("a number became an ObjectID")
		}
	}
	if got := (Measurement{}).Document(); got.Validate() != nil || len(got) != 5 {
		t.Errorf("no measurement is the document %v", got)
	}
}

func TestMeasurementWithoutMeta(t *testing.T) {
	o := timeseries.Options{TimeField: "t", Granularity: timeseries.Seconds, MaxSpanSeconds: 3600}
	f := &fake{buckets: []bson.Raw{bucketOf(o, fact{time: 5, fields: bson.D{{Key: "x", Value: 1.5}}})}}
	s := newSeries("s", "db.s.buckets", o, f)
	n := 0
	for m, err := range s.Find(t.Context(), Query{}) {
		if n++; err != nil || m.Meta.Type != 0 || m.Document().String() != `{"t": {"$date":{"$numberLong":"5"}},"x": {"$numberDouble":"1.5"}}` {
			t.Errorf("got %s, %v", m.Document(), err)
		}
	}
	if n != 1 {
		t.Errorf("%d measurements", n)
	}
}

func TestClonesOutliveTheIterator(t *testing.T) {
	s, _ := newFake(testOptions, bson.D{{Key: "sensor", Value: "s-17"}}, []int{3, 1, 2}, []int{1}, []int{70, 71})
	var clones []Measurement
	var texts []string
	for m, err := range s.Find(t.Context(), Query{}) {
		if err != nil {
			t.Fatal(err)
		}
		clones, texts = append(clones, m.Clone()), append(texts, m.Document().String())
	}
	var later []string
	for _, m := range clones {
		later = append(later, m.Document().String())
	}
	if len(later) != 6 || !slices.Equal(texts, later) {
		t.Error(cmp.Diff(texts, later))
	}
}
