package verify_test

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/bucketer"
	"waterwheel/internal/claim"
	"waterwheel/internal/measurement"
	"waterwheel/internal/record"
	"waterwheel/internal/timeseries"
	"waterwheel/internal/verify"
)

const noon = int64(1_700_000_000_000) // time of the first record in milliseconds

// world is a log with the buckets that the catalog makes of it.
type world struct {
	t           testing.TB
	source      timeseries.Source
	options     timeseries.Options
	records     []record.Record
	first       int64 // first offset of the log
	deadLetters verify.DeadLetters
	claims      []claim.Document
	docs        map[bson.ObjectID]bson.Raw
	// other holds the documents of another shard, because an _id is unique only within a shard.
	other map[bson.ObjectID]bson.Raw
	// compactions are all compactions that have begun.
	compactions []*compaction
	// deleted and changed are the noted positions.
	deleted, changed []timeseries.Position

	catalog *bucketer.Catalog
	dense   int32 // bucketer.Options.DenseFrom of the next catalog
	decoder *measurement.Decoder
	twice   bool // a query returns each bucket twice, like a bucket that moves in the index
	// beaten reports whether a live owner's write comes before an update or delete, whose filter then does not match.
	beaten func() bool
}

func newWorld(t testing.TB) *world {
	t.Helper()
	o, err := timeseries.Options{TimeField: "time", MetaField: "meta"}.Normalize()
	if err != nil {
		t.Fatal(err)
	}
	w := &world{
		t: t, options: o, docs: map[bson.ObjectID]bson.Raw{},
		source: timeseries.Source{Topic: "events", TopicID: [16]byte{1, 2}, Partition: 3},
	}
	w.catalog = w.newCatalog()
	w.decoder = w.newDecoder()
	return w
}

// newCatalog makes an owner without any known bucket.
func (w *world) newCatalog() *bucketer.Catalog {
	limits := timeseries.Limits{MaxCount: 8, MaxBytes: 125 << 10, MinCount: 10}
	return bucketer.New(bucketer.Options{Collection: w.options, Limits: limits, Source: w.source, DeltaMax: 2, DenseFrom: w.dense})
}

func (w *world) newDecoder() *measurement.Decoder {
	d, err := measurement.New(measurement.Options{TimeField: "time", MetaField: "meta", StoredTime: "time", StoredMeta: "meta"})
	if err != nil {
		w.t.Fatal(err)
	}
	return d
}

// produce appends a record and stores its measurements. Bad ones become letters.
func (w *world) produce(value string) {
	w.t.Helper()
	w.insert(w.append(value))
}

func (w *world) insert(r record.Record) {
	w.t.Helper()
	results, err := w.decoder.Decode(r)
	if err != nil {
		w.deadLetters.Add(w.source.Partition, r.Offset, record.WholeRecord)
	}
	for i := range results {
		if results[i].Err != nil {
			w.deadLetters.Add(w.source.Partition, r.Offset, int32(i))
		} else if err := w.catalog.Insert(&results[i].Measurement); err != nil {
			w.t.Fatal(err)
		}
	}
}

// append appends a record that is not stored.
func (w *world) append(value string) record.Record {
	r := record.Record{Offset: 100, Timestamp: noon, Value: []byte(value)}
	if n := len(w.records); n > 0 {
		r.Offset = w.records[n-1].Offset + 1
	}
	w.records = append(w.records, r)
	return r
}

// fill produces n records of three series. They are single measurements, and every tenth is an array of three with a bad element.
func (w *world) fill(n int) {
	w.t.Helper()
	for i := range n {
		switch event := w.event(i); {
		case i%50 == 49:
			w.produce("not json")
		case i%10 == 9:
			w.produce("[" + event + `,{"x":1},` + w.event(i+1) + "]")
		default:
			w.produce(event)
		}
	}
	w.flush()
}

func (w *world) event(i int) string {
	return fmt.Sprintf(`{"time":%d,"meta":{"host":%d},"x":%d.5,"tags":["a","%c"],"inner":{"n":%d,"s":"%s"}}`,
		noon+int64(i)*1000, i%3, i*7%11, 'a'+rune(i%5), i*13%17, strings.Repeat("s", i%4))
}

// flush stores the content of the catalog.
func (w *world) flush() {
	w.t.Helper()
	f := w.catalog.Prepare(0)
	if f == nil {
		return
	}
	for _, write := range f.Writes {
		if write.Kind == bucketer.Insert {
			w.docs[write.ID] = write.Document
		} else if done, err := w.Update(w.t.Context(), write.Filter, write.Document); err != nil || !done {
			w.t.Fatalf("a delta was applied: %v, %v", done, err)
		}
	}
	w.catalog.Finish(f, make([]bucketer.Outcome, len(f.Writes)), 0)
}

// ids returns the ids of all buckets, in order.
func (w *world) ids() []bson.ObjectID {
	var ids []bson.ObjectID
	for id := range w.docs {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b bson.ObjectID) int { return bytes.Compare(a[:], b[:]) })
	return ids
}

// edit changes a value of a bucket by its dotted path. A nil value removes the field.
func (w *world) edit(id bson.ObjectID, path string, value any) {
	w.t.Helper()
	var d bson.D
	if err := bson.Unmarshal(w.docs[id], &d); err != nil {
		w.t.Fatal(err)
	}
	raw, err := bson.Marshal(set(d, strings.Split(path, "."), value))
	if err != nil {
		w.t.Fatal(err)
	}
	w.docs[id] = raw
}

func set(d bson.D, path []string, value any) bson.D {
	for i := range d {
		if d[i].Key != path[0] {
			continue
		}
		if len(path) > 1 {
			value = set(d[i].Value.(bson.D), path[1:], value)
		}
		if value == nil {
			return slices.Delete(d, i, i+1)
		}
		d[i].Value = value
		return d
	}
	return append(d, bson.E{Key: path[0], Value: value})
}

// Claims implements verify.Claims.
func (w *world) Claims(context.Context) ([]claim.Document, error) { return w.claims, nil }

// Deleted implements verify.Notes.
func (w *world) Deleted(_ context.Context, source timeseries.Source, from, to int64, each func(timeseries.Position)) error {
	return w.noted(source, w.deleted, from, to, each)
}

// Changed implements verify.Notes.
func (w *world) Changed(_ context.Context, source timeseries.Source, from, to int64, each func(timeseries.Position)) error {
	return w.noted(source, w.changed, from, to, each)
}

func (w *world) noted(source timeseries.Source, noted []timeseries.Position, from, to int64, each func(timeseries.Position)) error {
	if source != w.source {
		return fmt.Errorf("notes of %v were asked for", source)
	}
	for _, p := range noted {
		if p.Offset >= from && p.Offset < to {
			each(p)
		}
	}
	return nil
}

// Scan implements verify.Log.
func (w *world) Scan(_ context.Context, of record.Partition, from, to int64, each func(*record.Record) error) (int64, error) {
	if of.Topic != w.source.Topic || of.Number != w.source.Partition {
		return 0, fmt.Errorf("records of %v were asked for", of)
	}
	for _, r := range w.records {
		if r.Offset >= max(from, w.first) && r.Offset < to {
			if err := each(&r); err != nil {
				return max(from, w.first), err
			}
		}
	}
	return max(from, w.first), nil
}

// Find implements verify.Buckets like MongoDB. Only whole documents have columns.
func (w *world) Find(_ context.Context, source timeseries.Source, from, to int64, whole bool, each func(bson.Raw) error) error {
	stored := make([]bson.Raw, 0, len(w.docs)+len(w.other))
	for _, id := range w.ids() {
		stored = append(stored, w.docs[id])
	}
	for _, d := range w.other {
		stored = append(stored, d)
	}
	for _, d := range stored {
		part := d.Lookup("control", "source").Document()
		last, ok := part.Lookup("last").AsInt64OK()
		first, _ := part.Lookup("first").AsInt64OK()
		if !ok || last < from || first >= to {
			continue
		}
		if !whole {
			d = w.short(d)
		}
		for range 1 + count(w.twice) {
			if err := each(slices.Clone(d)); err != nil {
				return err
			}
		}
	}
	return nil
}

// short returns a document without its columns.
func (w *world) short(d bson.Raw) bson.Raw {
	w.t.Helper()
	control := bson.D{{Key: "min", Value: bson.D{{Key: "time", Value: d.Lookup("control", "min", "time")}}}}
	for _, name := range []string{"count", "source", "segment", "compaction"} {
		if v := d.Lookup("control", name); v.Type != 0 {
			control = append(control, bson.E{Key: name, Value: v})
		}
	}
	fields := bson.D{{Key: "_id", Value: d.Lookup("_id")}, {Key: "control", Value: control}}
	if meta := d.Lookup("meta"); meta.Type != 0 {
		fields = append(fields, bson.E{Key: "meta", Value: meta})
	}
	short, err := bson.Marshal(fields)
	if err != nil {
		w.t.Fatal(err)
	}
	return short
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}

// Unfinished implements verify.Buckets.
func (w *world) Unfinished(context.Context) (map[claim.Token]bool, error) {
	all, finished := map[claim.Token]bool{}, map[claim.Token]bool{}
	for _, d := range w.docs {
		segment, _ := d.Lookup("control", "segment").DocumentOK()
		if _, id, frozen := segment.Lookup("compaction").BinaryOK(); !frozen {
			continue
		} else if segment.Lookup("visibleUntil").Type == 0 {
			all[claim.Token(id)] = true
		} else {
			finished[claim.Token(id)] = true
		}
	}
	maps.DeleteFunc(all, func(id claim.Token, _ bool) bool { return finished[id] })
	return all, nil
}

// Update implements verify.Buckets with the operators that the product uses.
func (w *world) Update(_ context.Context, filter, update bson.Raw) (bool, error) {
	id, ok := w.match(filter)
	if !ok {
		return false, nil
	}
	var operators bson.D
	if err := bson.Unmarshal(update, &operators); err != nil {
		return false, err
	}
	for _, operator := range operators {
		for _, c := range operator.Value.(bson.D) {
			path := strings.Split(c.Key, ".")
			switch old := w.docs[id].Lookup(path...); operator.Key {
			case "$push":
				var list bson.A
				if err := old.Unmarshal(&list); err != nil {
					return false, err
				}
				c.Value = append(list, c.Value)
			case "$min":
				c.Value = min(c.Value.(int64), old.Int64())
			case "$max":
				c.Value = max(c.Value.(int64), old.Int64())
			case "$set":
			default:
				return false, fmt.Errorf("unknown operator %s", operator.Key)
			}
			w.edit(id, c.Key, c.Value)
		}
	}
	return true, nil
}

// Delete implements verify.Buckets.
func (w *world) Delete(_ context.Context, filter bson.Raw) (bool, error) {
	id, ok := w.match(filter)
	if ok {
		delete(w.docs, id)
		return true, nil
	}
	if ok = w.fits(w.other[id], filter); ok {
		delete(w.other, id)
	}
	return ok, nil
}

func (w *world) match(filter bson.Raw) (bson.ObjectID, bool) {
	id := filter.Lookup("_id").ObjectID()
	if w.docs[id] == nil || w.beaten != nil && w.beaten() {
		return id, false
	}
	return id, w.fits(w.docs[id], filter)
}

// fits reports whether a document matches a filter. The document may be nil.
func (w *world) fits(d, filter bson.Raw) bool {
	if d == nil {
		return false
	}
	conditions, _ := filter.Elements()
	for _, c := range conditions {
		want, have := c.Value(), d.Lookup(strings.Split(c.Key(), ".")...)
		if operator, ok := want.DocumentOK(); ok && timeseries.HasOperators(want) {
			if ne := operator.Lookup("$ne"); ne.Type != 0 && !ne.Equal(have) {
				continue
			}
			want = operator.Lookup("$eq")
		}
		if !want.Equal(have) {
			return false
		}
	}
	return true
}

// verify verifies the whole log.
func (w *world) verify(change ...func(*verify.Options)) verify.Report {
	w.t.Helper()
	from := w.records[0].Offset
	return w.verifyRange(from, from+int64(len(w.records)), change...)
}

func (w *world) verifyRange(from, to int64, change ...func(*verify.Options)) verify.Report {
	w.t.Helper()
	o := verify.Options{
		Collection: w.options, Decoder: w.newDecoder(), Log: w, Buckets: w, DeadLetters: &w.deadLetters, Claims: w, Notes: w, Now: func() int64 { return noon + 1_000_000 },
	}
	for _, c := range change {
		c(&o)
	}
	v, err := verify.New(o)
	if err != nil {
		w.t.Fatal(err)
	}
	report, err := v.Partition(w.t.Context(), verify.Range{Source: w.source, From: from, To: to})
	if err != nil {
		w.t.Fatal(err)
	}
	if report.Next != report.To {
		w.t.Errorf("judged up to %d of %d", report.Next, report.To)
	}
	stored := report.Valid + report.Bad - report.Missing.Count - report.Doubled.Count - report.DeadLettered - report.Expired -
		report.Deleted.Count - report.DeadLetterMissing.Count - report.DeadLetterDeleted.Count
	if stored != report.StoredOnce && report.Unknown.Count+report.Compacted.Count == 0 {
		w.t.Errorf("the counts do not add up: %+v", report.Findings)
	}
	return report
}

func content(o *verify.Options) { o.Content = true }

// double adds a copy of a bucket with a larger _id. It returns the larger _id.
func (w *world) double(id bson.ObjectID) bson.ObjectID {
	other := id
	other[4] ^= 0xff
	if bytes.Compare(other[:], id[:]) < 0 {
		w.docs[other] = w.docs[id] // the larger one stays the copy
		other, id = id, other
		w.edit(id, "_id", id)
		return other
	}
	w.docs[other] = w.docs[id]
	w.edit(other, "_id", other)
	return other
}
