package check

import (
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/collection"
	"waterwheel/internal/timeseries"
	"waterwheel/reader"
)

func TestAdviceIsSaid(t *testing.T) {
	o := timeseries.Options{TimeField: "time", MetaField: "meta"}
	index := func(keys bson.D, name string) timeseries.Index {
		raw, err := bson.Marshal(keys)
		if err != nil {
			t.Fatal(err)
		}
		options, err := bson.Marshal(bson.D{{Key: "name", Value: name}})
		if err != nil {
			t.Fatal(err)
		}
		return timeseries.Index{Keys: raw, Options: options}
	}
	series := index(bson.D{{Key: "meta", Value: 1}, {Key: "control.min.time", Value: 1}}, "series")
	for name, c := range map[string]struct {
		filter  bson.D
		measure *reader.Cost
		state   State
		says    []string
		wayOut  string
	}{
		"served": {
			filter: bson.D{{Key: "meta", Value: "s"}}, state: OK, says: []string{"the index series supports the filter on meta"},
		},
		"of a part": {
			filter: bson.D{{Key: "meta.sensor", Value: "s"}}, state: Warning, says: []string{"reads every bucket"},
			wayOut: `waterwheel collection create-index '{"meta.sensor":1,"time":-1}' --topic two, or META_INDEXES=meta.sensor`,
		},
		"of two parts and a time": {
			filter: bson.D{{Key: "meta.a", Value: 1}, {Key: "meta.b", Value: 2}, {Key: "time", Value: bson.DateTime(5)}}, state: Warning,
			says:   []string{"the index _id_ supports the filter on time, but not on meta.a, meta.b: the filter reads more buckets than it needs"},
			wayOut: `'{"meta.a":1,"meta.b":1,"time":-1}'`, measure: &reader.Cost{DocumentsExamined: 55, Buckets: 2},
		},
		"tried": {
			filter: bson.D{{Key: "meta.a", Value: 1}}, state: Warning, says: []string{"in a test MongoDB examined 55 buckets, of which 2 can match"},
			wayOut: `'{"meta.a":1,"time":-1}'`, measure: &reader.Cost{DocumentsExamined: 55, Buckets: 2},
		},
		"cheap all the same": {
			filter: bson.D{{Key: "meta.a", Value: 1}}, state: OK, says: []string{"at present the filter reads few buckets", "examined 3 buckets, of which 2 can match"},
			measure: &reader.Cost{DocumentsExamined: 3, Buckets: 2},
		},
		"nothing helps": {
			filter: bson.D{{Key: "$or", Value: bson.A{}}, {Key: "celsius", Value: 5}}, state: Warning,
			says: []string{"reads every bucket", "no index supports $or", "celsius is checked in each"}, wayOut: "a part of the meta",
		},
	} {
		filter, err := bson.Marshal(c.filter)
		if err != nil {
			t.Fatal(err)
		}
		a, err := o.Advise(filter, []timeseries.Index{index(bson.D{{Key: "_id", Value: 1}}, "_id_"), series})
		if err != nil {
			t.Fatal(err)
		}
		var found Findings
		l := look{Options: Options{Topics: []Topic{{Name: "one"}, {Name: "two"}}}, Findings: &found}
		l.advise("events", Topic{Name: "two"}, a, c.measure)
		if len(found) != 1 || found[0].State != c.state || !strings.Contains(found[0].WayOut, c.wayOut) {
			t.Errorf("%s: %+v", name, found)
			continue
		}
		for _, want := range c.says {
			if !strings.Contains(found[0].Text, want) {
				t.Errorf("%s: %q is not in %q", name, want, found[0].Text)
			}
		}
	}
}

func TestMetaIndexesAreFound(t *testing.T) {
	var found Findings
	l := look{Options: Options{Settings: collection.Settings{MetaPaths: []string{"meta.a"}}}, Findings: &found}
	l.metaIndexes("events", collection.IndexList{Indexes: []collection.Index{{Name: "former", Kind: collection.IndexOfUser, Asked: true}}})
	if len(found) != 2 || found[0].State != Warning || !strings.Contains(found[0].Text, "asks for meta.a") || !strings.Contains(found[0].WayOut, "waterwheel init") ||
		found[1].State != Note || !strings.Contains(found[1].Text, "drop-index former") {
		t.Errorf("%+v", found)
	}
}
