package sink_test

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/bucketer"
	"waterwheel/sink"
	"waterwheel/timeseries"
)

func itoa(n int) string { return strconv.Itoa(n) }

func TestClaimIsCompareAndSet(t *testing.T) {
	e := connect(t)
	s := e.setup(t)
	a, b := s.Partition(source, "cluster", "group", "a"), s.Partition(source, "cluster", "group", "b")
	defer a.Close()
	defer b.Close()

	none, err := a.Read(t.Context())
	if err != nil || none != (sink.Seen{}) {
		t.Fatalf("no document: %+v, %v", none, err)
	}
	first := sink.Claim{Token: token(), Start: 42, Wait: 30 * time.Second}
	if won, err := a.Claim(t.Context(), none, first); err != nil || !won {
		t.Fatalf("first claim: %v, %v", won, err)
	}
	if won, err := b.Claim(t.Context(), none, sink.Claim{Token: token()}); err != nil || won {
		t.Fatalf("a claim on a document that exists: %v, %v", won, err)
	}
	seen, err := b.Read(t.Context())
	want := sink.Seen{Found: true, Group: "group", TopicID: source.TopicID, Claim: first.Token, Start: 42, Wait: 30 * time.Second}
	if diff := cmp.Diff(want, seen); err != nil || diff != "" {
		t.Fatalf("%v\n%s", err, diff)
	}
	if won, err := b.Claim(t.Context(), seen, sink.Claim{Token: token(), Start: 50}); err != nil || !won {
		t.Fatalf("a claim on what was seen: %v, %v", won, err)
	}
	if won, err := a.Claim(t.Context(), seen, sink.Claim{Token: token()}); err != nil || won {
		t.Fatalf("a claim on what is not there any more: %v, %v", won, err)
	}
	if err := a.Release(t.Context()); !errors.Is(err, sink.ErrOtherOwner) {
		t.Fatalf("a release of another's claim: %v", err)
	}
	if err := b.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if seen, err = a.Read(t.Context()); err != nil || !seen.Released || seen.Start != 50 {
		t.Fatalf("after the release: %+v, %v", seen, err)
	}
}

func TestAnotherGroupsClaimIsNotReplaced(t *testing.T) {
	e := connect(t)
	s := e.setup(t)
	e.claimed(t, s)
	other := s.Partition(source, "cluster", "other", "host")
	defer other.Close()
	seen, err := other.Read(t.Context())
	if err != nil || seen.Group != "group" {
		t.Fatalf("%+v, %v", seen, err)
	}
	if won, err := other.Claim(t.Context(), seen, sink.Claim{Token: token()}); err != nil || won {
		t.Fatalf("won %v, %v", won, err)
	}
}

func TestReadFindsBucketsWithoutDocument(t *testing.T) {
	e := connect(t)
	s := e.setup(t)
	p := e.claimed(t, s)
	sendAll(t, p, sink.Acked, insertOf("a", run(0, 2)...))
	if _, err := e.raw.Collection("events.partitions").DeleteMany(t.Context(), bson.D{}); err != nil {
		t.Fatal(err)
	}
	seen, err := p.Read(t.Context())
	if err != nil || seen.Found || !seen.HasBuckets {
		t.Fatalf("%+v, %v", seen, err)
	}
	if _, err := p.Resolve(t.Context(), nil); !errors.Is(err, sink.ErrOtherOwner) {
		t.Fatalf("a fence without a document: %v", err)
	}
}

func sendAll(t testing.TB, p *sink.Partition, want sink.Result, writes ...*bucketer.Write) []sink.Sent {
	t.Helper()
	sent := p.Send(t.Context(), writes)
	for i, s := range sent {
		if s.Result != want {
			t.Fatalf("write %d is %v (%d %s, %v), not %v", i, s.Result, s.Code, s.Message, s.Err, want)
		}
	}
	return sent
}

func TestStoredIsWhatWasSent(t *testing.T) {
	e := connect(t)
	s := e.setup(t)
	p := e.claimed(t, s)
	a := insertOf("a", run(100, 5)...)
	b := insertOf("b", timeseries.Position{Offset: 105}, timeseries.Position{Offset: 105, Part: 7})
	sendAll(t, p, sink.Acked, a, b)
	sendAll(t, p, sink.Acked, updateOf(a, timeseries.Position{Offset: 300}))

	for _, c := range []struct {
		start, end int64
		len        int
	}{{0, 1 << 32, 8}, {103, 400, 5}, {103, 106, 4}, {106, 300, 0}, {301, 1000, 0}, {300, math.MaxInt32, 1}} {
		d, err := p.Stored(t.Context(), c.start, c.end, nil)
		if err != nil {
			t.Fatal(err)
		}
		if d.Len() != c.len {
			t.Errorf("[%d, %d): %d positions, want %d", c.start, c.end, d.Len(), c.len)
		}
	}
	d, err := p.Stored(t.Context(), 0, 1000, nil)
	if err != nil || !d.Contains(timeseries.Position{Offset: 105, Part: 7}) || d.Contains(timeseries.Position{Offset: 105, Part: 6}) {
		t.Errorf("parts are mixed up (%v)", err)
	}
	// Another partition, and another topic of the same name, have nothing stored.
	for _, other := range []timeseries.Source{
		{Topic: "events", TopicID: source.TopicID, Partition: 4}, {Topic: "events", TopicID: [16]byte{9}, Partition: 3},
	} {
		q := s.Partition(other, "cluster", "group", "host")
		if d, err := q.Stored(t.Context(), 0, 1000, nil); err != nil || d.Len() != 0 {
			t.Errorf("%+v: %v, %v", other, d, err)
		}
		q.Close()
	}
}

func TestStoredReportsProgress(t *testing.T) {
	e := connect(t)
	p := e.claimed(t, e.setup(t))
	var writes []*bucketer.Write
	for i := range 1050 {
		writes = append(writes, insertOf(itoa(i), run(int64(i)*2, 2)...))
	}
	sendAll(t, p, sink.Acked, writes...)
	var told []string
	d, err := p.Stored(t.Context(), 0, 1<<31, func(buckets, positions int) { told = append(told, fmt.Sprint(buckets, " ", positions)) })
	if err != nil || d.Len() != 2100 {
		t.Fatalf("%v, %v", d.Len(), err)
	}
	if diff := cmp.Diff([]string{"1000 2000"}, told); diff != "" {
		t.Error(diff)
	}
}

func TestDamagedBucketIsNamed(t *testing.T) {
	for name, damage := range map[string]bson.D{
		"count":           {{Key: "$set", Value: bson.D{{Key: "control.count", Value: 9}}}},
		"no count":        {{Key: "$unset", Value: bson.D{{Key: "control.count", Value: 1}}}},
		"offsets":         {{Key: "$set", Value: bson.D{{Key: "control.source.offsets", Value: bson.A{bson.Binary{Data: []byte{0xff}}}}}}},
		"no list":         {{Key: "$set", Value: bson.D{{Key: "control.source.offsets", Value: "x"}}}},
		"no binary":       {{Key: "$set", Value: bson.D{{Key: "control.source.offsets", Value: bson.A{1}}}}},
		"no first, count": {{Key: "$unset", Value: bson.D{{Key: "control.source.first", Value: 1}, {Key: "control.count", Value: 1}}}},
	} {
		t.Run(name, func(t *testing.T) {
			e := connect(t)
			p := e.claimed(t, e.setup(t))
			w := insertOf("a", run(10, 3)...)
			sendAll(t, p, sink.Acked, w)
			if _, err := e.raw.Collection("events.buckets").UpdateByID(t.Context(), w.ID, damage); err != nil {
				t.Fatal(err)
			}
			var damaged *sink.DamagedError
			if _, err := p.Stored(t.Context(), 0, 100, nil); !errors.As(err, &damaged) || damaged.ID.ObjectID() != w.ID {
				t.Fatalf("in range: %v", err)
			}
			if _, err := p.Positions(t.Context(), insertOf("b", run(12, 3)...)); !errors.As(err, &damaged) {
				t.Fatalf("asked for positions: %v", err)
			}
			if d, err := p.Stored(t.Context(), 50, 100, nil); err != nil || d.Len() != 0 {
				t.Fatalf("out of range: %v", err)
			}
		})
	}
}

func TestSendTellsWhichWritesFoundTheirBucket(t *testing.T) {
	e := connect(t)
	p := e.claimed(t, e.setup(t))
	a := insertOf("a", run(0, 2)...)
	sendAll(t, p, sink.Acked, a)
	b := insertOf("b", run(10, 1)...)
	got := p.Send(t.Context(), []*bucketer.Write{a, b})
	if got[0].Result != sink.Unknown || got[0].Code != 11000 {
		t.Errorf("a duplicate _id: %+v", got)
	}
	// A server that counts the duplicate among the inserted leaves the other write in doubt.
	if found, err := p.Resolve(t.Context(), []*bucketer.Write{a, b}); err != nil || found[0] != sink.FoundApplied || found[1] != sink.FoundApplied {
		t.Errorf("read back: %v, %v (sent %+v)", found, err, got)
	}
	missing := insertOf("c", run(20, 1)...)
	sent := p.Send(t.Context(), []*bucketer.Write{updateOf(a, run(5, 1)[0]), updateOf(missing, run(21, 1)[0])})
	for i, s := range sent {
		if s.Result != sink.Unknown { // the server tells the sum only
			t.Errorf("update %d: %+v", i, s)
		}
	}
	sendAll(t, p, sink.Unknown, updateOf(missing, run(21, 1)[0]))
}

func TestSendOfThousandsOfWrites(t *testing.T) {
	for _, parallel := range []int{1, 4} {
		e := connect(t, func(o *sink.Options) { o.Parallel = parallel })
		p := e.claimed(t, e.setup(t))
		var inserts, updates []*bucketer.Write
		for i := range 1100 {
			w := insertOf(itoa(i), run(int64(i)*10, 1)...)
			inserts, updates = append(inserts, w), append(updates, updateOf(w, run(int64(i)*10+1, 1)[0]))
		}
		sendAll(t, p, sink.Acked, inserts...)
		sendAll(t, p, sink.Acked, updates[:20]...)
		if d, err := p.Stored(t.Context(), 0, 1<<31, nil); err != nil || d.Len() != 1120 {
			t.Errorf("parallel %d: %v, %v", parallel, d.Len(), err)
		}
	}
}

func TestResolveJudgesEveryWrite(t *testing.T) {
	e := connect(t)
	p := e.claimed(t, e.setup(t))
	buckets := e.raw.Collection("events.buckets")
	set := func(w *bucketer.Write, fields bson.D) {
		t.Helper()
		if _, err := buckets.UpdateByID(t.Context(), w.ID, bson.D{{Key: "$set", Value: fields}}); err != nil {
			t.Fatal(err)
		}
	}
	drop := func(w *bucketer.Write) {
		t.Helper()
		if _, err := buckets.DeleteOne(t.Context(), bson.D{{Key: "_id", Value: w.ID}}); err != nil {
			t.Fatal(err)
		}
	}
	closed, meta := bson.D{{Key: "control.closed", Value: true}}, bson.D{{Key: "meta", Value: "other"}}
	count := bson.D{{Key: "control.count", Value: int32(77)}}

	offset := int64(0)
	next := func() []timeseries.Position { offset += 10; return run(offset, 2) }
	stored := func() *bucketer.Write { w := insertOf("a", next()...); sendAll(t, p, sink.Acked, w); return w }
	applied := func() *bucketer.Write {
		w := updateOf(stored(), run(offset+5, 1)[0])
		sendAll(t, p, sink.Acked, w)
		return w
	}
	for _, c := range []struct {
		name string
		want sink.Found
		make func() *bucketer.Write
	}{
		{"insert applied", sink.FoundApplied, stored},
		{"insert not applied", sink.FoundNotApplied, func() *bucketer.Write { return insertOf("a", next()...) }},
		{"insert applied, closed since", sink.FoundAppliedForget, func() *bucketer.Write { w := stored(); set(w, closed); return w }},
		{"insert applied, other meta since", sink.FoundAppliedForget, func() *bucketer.Write { w := stored(); set(w, meta); return w }},
		{"another's insert", sink.FoundDiffers, func() *bucketer.Write {
			w := insertOf("a", next()...)
			theirs := insertOf("a", append([]timeseries.Position{{Offset: offset}}, run(offset+3, 1)...)...)
			sendAll(t, p, sink.Acked, theirs)
			return w
		}},
		{"update applied", sink.FoundApplied, applied},
		{"update not applied", sink.FoundNotApplied, func() *bucketer.Write { return updateOf(stored(), run(offset+5, 1)[0]) }},
		{"update applied, closed since", sink.FoundAppliedForget, func() *bucketer.Write { w := applied(); set(w, closed); return w }},
		{"update, bucket closed", sink.FoundDiffers, func() *bucketer.Write {
			w := stored()
			set(w, closed)
			return updateOf(w, run(offset+5, 1)[0])
		}},
		{"update, bucket of other meta", sink.FoundDiffers, func() *bucketer.Write {
			w := stored()
			set(w, meta)
			return updateOf(w, run(offset+5, 1)[0])
		}},
		{"update, bucket deleted", sink.FoundDiffers, func() *bucketer.Write {
			w := stored()
			drop(w)
			return updateOf(w, run(offset+5, 1)[0])
		}},
		{"update, another count", sink.FoundDiffers, func() *bucketer.Write {
			w := stored()
			set(w, count)
			return updateOf(w, run(offset+5, 1)[0])
		}},
		{"close applied", sink.FoundApplied, func() *bucketer.Write { w := stored(); set(w, closed); return closeOf(w) }},
		{"close not applied", sink.FoundNotApplied, func() *bucketer.Write { return closeOf(stored()) }},
		{"close, bucket deleted", sink.FoundAppliedForget, func() *bucketer.Write { w := stored(); drop(w); return closeOf(w) }},
		{"close, another count", sink.FoundAppliedForget, func() *bucketer.Write { w := stored(); set(w, count); return closeOf(w) }},
	} {
		got, err := p.Resolve(t.Context(), []*bucketer.Write{c.make()})
		if err != nil || got[0] != c.want {
			t.Errorf("%s: %v, %v, want %v", c.name, got, err, c.want)
		}
	}
}

func TestResolveFindsAnotherOwner(t *testing.T) {
	e := connect(t)
	s := e.setup(t)
	p := e.claimed(t, s)
	w := insertOf("a", run(0, 1)...)
	sendAll(t, p, sink.Acked, w)
	e.claimed(t, s)
	if _, err := p.Resolve(t.Context(), []*bucketer.Write{w}); !errors.Is(err, sink.ErrOtherOwner) {
		t.Errorf("resolve: %v", err)
	}
	if _, err := p.Positions(t.Context(), w); !errors.Is(err, sink.ErrOtherOwner) {
		t.Errorf("positions: %v", err)
	}
}

func TestPositionsAreFoundInAnyBucket(t *testing.T) {
	e := connect(t)
	p := e.claimed(t, e.setup(t))
	sendAll(t, p, sink.Acked, insertOf("a", run(10, 3)...), insertOf("b", timeseries.Position{Offset: 14, Part: 2}, timeseries.Position{Offset: 30}))
	w := insertOf("c", timeseries.Position{Offset: 14, Part: 2}, timeseries.Position{Offset: 11}, timeseries.Position{Offset: 14, Part: 1},
		timeseries.Position{Offset: 20})
	got, err := p.Positions(t.Context(), w)
	want := []timeseries.Position{{Offset: 14, Part: 2}, {Offset: 11}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
}

func TestFindPicksBucketsThatMayTakeMore(t *testing.T) {
	e := connect(t)
	s := e.setup(t)
	p := e.claimed(t, s)
	const hour = 3_600_000
	fits, older, full, closed := insertOf("a", run(0, 2)...), insertAt("a", minute-hour, run(10, 1)...), insertOf("b", run(20, 1)...), insertOf("c", run(30, 1)...)
	sendAll(t, p, sink.Acked, fits, older, full, closed, insertOf("d", run(40, 1)...))
	buckets := e.raw.Collection("events.buckets")
	for w, fields := range map[*bucketer.Write]bson.D{
		full: {{Key: "control.count", Value: int32(1000)}}, closed: {{Key: "control.closed", Value: true}},
	} {
		if _, err := buckets.UpdateByID(t.Context(), w.ID, bson.D{{Key: "$set", Value: fields}}); err != nil {
			t.Fatal(err)
		}
	}
	q := s.Partition(timeseries.Source{Topic: "events", TopicID: source.TopicID, Partition: 9}, "cluster", "group", "host")
	defer q.Close()

	lookups := []bucketer.Lookup{
		lookupOf("a", minute+1), lookupOf("a", minute-1), lookupOf("b", minute+1), lookupOf("c", minute+1), lookupOf("d", minute+hour),
		lookupOf("d", minute+hour-1), lookupOf("none", minute), {Series: lookupOf("a", 0).Series, Meta: metaOf("a"), ID: older.ID},
		{Series: lookupOf("b", 0).Series, Meta: metaOf("b"), ID: full.ID},
	}
	answers, err := p.Find(t.Context(), lookups)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for i, a := range answers {
		if diff := cmp.Diff(lookups[i], a.Lookup); diff != "" {
			t.Error(diff)
		}
		line := ""
		for _, c := range a.Candidates {
			line += c.Document.Lookup("_id").ObjectID().Hex()
			if _, err := c.Document.LookupErr("data"); err == nil {
				t.Error("the columns were read")
			}
			if stored := storedSize(t, e, c.Document.Lookup("_id").ObjectID()); c.Size != 0 && c.Size != stored {
				t.Errorf("size %d, stored are %d", c.Size, stored)
			}
		}
		got = append(got, line)
	}
	want := []string{fits.ID.Hex(), older.ID.Hex(), "", "", "", answers[5].Candidates[0].Document.Lookup("_id").ObjectID().Hex(), "", older.ID.Hex(), ""}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if answers, err := q.Find(t.Context(), lookups[:1]); err != nil || answers[0].Candidates != nil {
		t.Errorf("another partition's buckets were found: %v, %v", answers, err)
	}
}

func storedSize(t *testing.T, e *env, id bson.ObjectID) int32 {
	t.Helper()
	raw, err := e.raw.Collection("events.buckets").FindOne(t.Context(), bson.D{{Key: "_id", Value: id}}).Raw()
	if err != nil {
		t.Fatal(err)
	}
	return int32(len(raw))
}

func TestFindGroupsByBinarySeries(t *testing.T) {
	e := connect(t)
	p := e.claimed(t, e.setup(t))
	metas := []any{int32(1), int64(1), 1.0, bson.Null{}, bson.A{1, 2}, bson.D{{Key: "a", Value: 1}}}
	var writes []*bucketer.Write
	var lookups []bucketer.Lookup
	for i, meta := range metas {
		w := insertOf("", run(int64(i), 1)...)
		w.Meta = metaOf(meta)
		w.Document = replaced(w.Document, "meta", w.Meta)
		writes = append(writes, w)
		lookups = append(lookups, bucketer.Lookup{Series: string(byte(w.Meta.Type)) + string(w.Meta.Value), Meta: w.Meta, Time: minute})
	}
	absent := insertOf("", run(100, 1)...)
	absent.Meta, absent.Document = bson.RawValue{}, replaced(absent.Document, "meta", bson.RawValue{})
	writes, lookups = append(writes, absent), append(lookups, bucketer.Lookup{Time: minute})
	sendAll(t, p, sink.Acked, writes...)

	answers, err := p.Find(t.Context(), lookups)
	if err != nil {
		t.Fatal(err)
	}
	for i, a := range answers {
		if len(a.Candidates) != 1 || a.Candidates[0].Document.Lookup("_id").ObjectID() != writes[i].ID {
			t.Errorf("meta %v: %d candidates", writes[i].Meta, len(a.Candidates))
		}
	}
}

// replaced is a document with another value of a field, without it for the zero value.
func replaced(d bson.Raw, key string, value bson.RawValue) bson.Raw {
	var fields bson.D
	elements, err := d.Elements()
	if err != nil {
		panic(err)
	}
	for _, e := range elements {
		if e.Key() != key {
			fields = append(fields, bson.E{Key: e.Key(), Value: e.Value()})
		} else if value.Type != 0 {
			fields = append(fields, bson.E{Key: key, Value: value})
		}
	}
	return marshal(fields)
}

func TestTopicIsNotedOnce(t *testing.T) {
	s := connect(t).setup(t)
	for i, c := range []struct {
		id         [16]byte
		partitions int32
		want       int32
	}{{source.TopicID, 4, 4}, {source.TopicID, 9, 4}, {[16]byte{1}, 9, 0}} {
		if got, err := s.Topic(t.Context(), "cluster", "events", c.id, c.partitions); err != nil || got != c.want {
			t.Errorf("case %d: %d, %v", i, got, err)
		}
	}
}

func TestSetupBySeveralConsumersAtOnce(t *testing.T) {
	e := connect(t)
	var all sync.WaitGroup
	for range 5 {
		all.Go(func() {
			if _, err := e.Setup(t.Context(), "events", definition, 1000); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if _, err := e.Check(t.Context(), "events", definition, 1000); err != nil {
		t.Error(err)
	}
}
