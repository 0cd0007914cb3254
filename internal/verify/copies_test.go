package verify_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/claim"
	"waterwheel/internal/measurement"
	"waterwheel/internal/verify"
)

// stages are the possible stages of a compaction, each with the step from the stage before.
var stages = []struct {
	name string
	step func(c *compaction)
}{
	{"begun", func(*compaction) {}},
	{"some segments frozen", func(c *compaction) { c.freeze(1) }},
	{"all segments frozen", func(c *compaction) {
		for i := range c.segments {
			c.freeze(i)
		}
		c.read(noon + 2_000_000)
	}},
	{"some buckets inserted", func(c *compaction) { c.insert(0); c.insert(2) }},
	{"all buckets inserted", func(c *compaction) {
		for i := range c.buckets {
			if i != 0 && i != 2 {
				c.insert(i)
			}
		}
	}},
	{"some segments ended", func(c *compaction) { c.end(1) }},
	{"all segments ended", func(c *compaction) {
		for i := range c.segments {
			c.end(i)
		}
	}},
	{"some segments deleted", func(c *compaction) { c.sweep(1) }},
	{"all segments deleted", func(c *compaction) {
		for i := range c.segments {
			c.sweep(i)
		}
	}},
}

// TestEachStageOfACompactionStoresOnce checks that nothing is wrong in any stage, and that a repair changes nothing.
func TestEachStageOfACompactionStoresOnce(t *testing.T) {
	w := newSparseWorld(t, 200)
	segments := w.segmentIDs()
	if len(segments) < 8 {
		t.Fatalf("%d segments", len(segments))
	}
	c := w.begin(segments[:5]...)
	for _, stage := range stages {
		t.Run(stage.name, func(t *testing.T) {
			stage.step(c)
			before := w.content()
			for _, change := range []func(*verify.Options){
				func(*verify.Options) {}, content, repair, func(o *verify.Options) { o.Content, o.Window = true, 7 },
			} {
				if r := w.verify(change); r.Wrong() || r.StoredOnce != r.Valid || r.Valid != 212 {
					t.Errorf("%+v", r)
				}
			}
			if w.content() != before {
				t.Error("something was changed")
			}
		})
	}
}

// TestEachStageShowsWhatIsWrong checks that a missing measurement, and one that is also in another bucket, are found in each
// stage.
func TestEachStageShowsWhatIsWrong(t *testing.T) {
	w := newSparseWorld(t, 200)
	w.dense = 0
	rival(w, 4)          // with three copies, because the last record has none
	w.append(w.event(5)) // and one is not stored
	c := w.begin(w.segmentIDs()...)
	for _, stage := range stages {
		stage.step(c)
		if r := w.verify(content); r.Missing.Count != 1 || r.Doubled.Count != 3 || r.Unknown.Count != 0 || r.Damaged.Count != 0 {
			t.Errorf("%s: %+v", stage.name, r)
		}
	}
}

// TestACompactionThatIsRolledBackStoresOnce checks this during the roll-back and afterwards.
func TestACompactionThatIsRolledBackStoresOnce(t *testing.T) {
	w := newSparseWorld(t, 200)
	c := w.inserted(noon+2_000_000, w.segmentIDs()...)
	look := func(stage string) {
		t.Helper()
		if r := w.verify(content, repair); r.Wrong() || r.StoredOnce != 212 {
			t.Errorf("%s: %+v", stage, r)
		}
	}
	look("inserted")
	for i := range c.buckets {
		if c.withdraw(i); i == 2 {
			look("some buckets deleted")
		}
	}
	look("buckets deleted")
	for i := range c.segments {
		if c.unfreeze(i); i == 2 {
			look("some segments unfrozen")
		}
	}
	look("rolled back")
}

// TestEndedSegmentsDoNotStore also covers the segments of their compaction that are still frozen. Measurements that only they
// list are missing.
func TestEndedSegmentsDoNotStore(t *testing.T) {
	w := newSparseWorld(t, 100)
	c := w.frozen(noon+2_000_000, w.segmentIDs()[:2]...)
	c.end(0)
	n := int64(0)
	for _, id := range c.segments {
		count, _ := w.docs[id].Lookup("control", "count").AsInt64OK()
		n += count
	}
	if r := w.verify(content); r.Missing.Count != n || r.Damaged.Count != 0 {
		t.Errorf("%d of %d are missing: %+v", r.Missing.Count, n, r)
	}
	for i := range c.buckets { // buckets count although they are not shown yet
		c.insert(i)
	}
	if r := w.verify(content); r.Wrong() {
		t.Errorf("%+v", r)
	}
}

// TestASegmentThatIsFrozenMeanwhileStores has a segment that is frozen after the read of unfinished compactions, and before it is
// read itself. It has no time that could be long past.
func TestASegmentThatIsFrozenMeanwhileStores(t *testing.T) {
	w := doubledWorld(t, true)
	h := &hooked{world: w, before: func(query int) {
		if query == 1 {
			w.frozen(noon+2_000_000, w.segmentIDs()...)
		}
	}}
	if r := w.verify(func(o *verify.Options) { o.Buckets = h }); r.Doubled.Count != 3 || r.Missing.Count != 0 {
		t.Errorf("%+v", r)
	}
}

func TestPlantedFaultsOfSegmentsAreFound(t *testing.T) {
	for name, test := range map[string]struct {
		path  string
		value any
		want  string
		cheap bool // found without a read of the content
	}{
		"an open segment":          {"control.closed", nil, "control.closed: is nothing, but every segment is closed", false},
		"a meta of its own":        {"meta", "x", "meta: is \"x\", but a segment with this _id has ", false},
		"a filter of others":       {"control.segment.bloom256", bson.Binary{Data: make([]byte, 32)}, "control.segment.bloom256: is not the Bloom filter", false},
		"a filter that is short":   {"control.segment.bloom4096", bson.Binary{Data: []byte{1}}, "control.segment.bloom4096: is not the Bloom filter", false},
		"an end by nobody":         {"control.segment.visibleUntil", bson.DateTime(5), "control.segment.compaction: is nothing, not a UUID", true},
		"an end that is no date":   {"control.segment.visibleUntil", "x", "control.segment.visibleUntil: is \"x\", not a date", true},
		"a compaction that is odd": {"control.segment.compaction", "x", "control.segment.compaction: is \"x\", not a UUID", true},
		"a segment that is none":   {"control.segment", "x", "control.segment: is \"x\", not an object", true},
		"another meta":             {"data.meta.2", bson.D{{Key: "host", Value: "z"}}, "data.meta.2: is {\"host\": \"z\"}, but the record has", false},
		"no meta":                  {"data.meta.1", nil, "data.meta.1: is nothing, but the record has", false},
		"another value":            {"data.x.3", 4.25, "data.x.3: is {\"$numberDouble\":\"4.25\"}, but the record has", false},
		"a minimum without a meta": {"control.min.meta", nil, "control.min.meta: is nothing, but the measurements give", false},
		"a wrong maximum of metas": {"control.max.meta.host", int32(77), "control.max.meta.host: is", false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newSparseWorld(t, 100)
			id := w.full()
			w.edit(id, test.path, test.value)
			r := w.verify(content)
			var text []string
			for _, f := range append(r.Different.First, r.Damaged.First...) {
				text = append(text, f.Path+": "+f.Text)
				if f.Bucket != id.Hex() {
					t.Errorf("%+v", f)
				}
			}
			if all := strings.Join(text, "\n"); !strings.Contains(all, test.want) || !r.Wrong() {
				t.Errorf("%q is not said in:\n%s", test.want, all)
			}
			if r := w.verify(); (r.Damaged.Count > 0) != test.cheap {
				t.Errorf("without looking at the content: %+v", r.Damaged)
			}
		})
	}
}

func TestPlantedFaultsOfCompactedBucketsAreFound(t *testing.T) {
	for name, test := range map[string]struct {
		path  string
		value any
		want  string
	}{
		"no object":       {"control.compaction", 1, "control.compaction.visibleFrom: is nothing, not a date"},
		"no time":         {"control.compaction.visibleFrom", nil, "control.compaction.visibleFrom: is nothing, not a date"},
		"another type id": {"control.compaction.id", bson.Binary{Data: make([]byte, 16)}, "not a UUID"},
	} {
		w := newSparseWorld(t, 100)
		c := w.whole(w.segmentIDs()...)
		for i := range c.segments {
			c.sweep(i)
		}
		w.edit(c.buckets[1], test.path, test.value)
		r := w.verify()
		if r.Damaged.Count != 1 || !strings.Contains(r.Damaged.First[0].Path+": "+r.Damaged.First[0].Text, test.want) || r.StoredOnce != r.Valid {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// TestASegmentIsCheckedByTheHashesOfItsMetas covers metas of several types, and a collection of a single series, which has no
// hashes.
func TestASegmentIsCheckedByTheHashesOfItsMetas(t *testing.T) {
	w := newSparseWorld(t, 30)
	for i, meta := range []string{`"s-17"`, `{"sensor":"s-17"}`, `17`, `null`} {
		w.produce(strings.Replace(w.event(i), `"meta":{`, `"meta":`+meta+`,"x1":{`, 1))
	}
	w.flush()
	if r := w.verify(content); r.Wrong() || r.Segments == 0 || r.Buckets != 0 {
		t.Errorf("%+v", r)
	}

	w = newWorld(t)
	decoder, err := measurement.New(measurement.Options{TimeField: "time", MetaFrom: measurement.MetaFromNone})
	if err != nil {
		t.Fatal(err)
	}
	w.decoder, w.dense, w.options.MetaField = decoder, 64, ""
	w.catalog = w.newCatalog()
	w.fill(100)
	if r := w.verify(content, func(o *verify.Options) { o.Decoder = decoder }); r.Wrong() || r.Segments == 0 || r.Buckets != 0 {
		t.Errorf("%+v", r)
	}
}

// failing is buckets with an error at the n-th read of unfinished compactions.
type failing struct {
	*world
	reads, at int
}

var errUnreadable = errors.New("unreadable")

func (f *failing) Unfinished(ctx context.Context) (map[claim.Token]bool, error) {
	if f.reads++; f.reads == f.at {
		return nil, errUnreadable
	}
	return f.world.Unfinished(ctx)
}

// TestUnreadableCompactionsAreAnError checks this because without them the stored measurements are unknown.
func TestUnreadableCompactionsAreAnError(t *testing.T) {
	reads := 0
	for at := 0; at <= reads; at++ { // zero means never
		w := newSparseWorld(t, 100)
		segments := w.segmentIDs()
		w.double(segments[0])
		w.frozen(noon, segments[1:3]...).insert(0)
		f := &failing{world: w, at: at}
		v, err := verify.New(verify.Options{
			Collection: w.options, Decoder: w.newDecoder(), Log: w, Buckets: f, DeadLetters: &w.deadLetters, Claims: w, Repair: verify.DryRun,
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := v.Partition(t.Context(), verify.Range{Source: w.source, From: 100, To: 200}); errors.Is(err, errUnreadable) != (at > 0 && f.reads >= at) {
			t.Errorf("reading %d fails: %v", at, err)
		}
		reads = max(reads, f.reads)
	}
	if reads < 4 {
		t.Errorf("compactions were read %d times", reads)
	}
}
