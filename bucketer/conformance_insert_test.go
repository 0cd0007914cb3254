package bucketer

import (
	"maps"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/measurement"
	"waterwheel/internal/timeseries"
)

// insertRun is a case of kind insert in progress, with a catalog, a store, and the known state of each bucket.
type insertRun struct {
	t       *testing.T
	catalog *Catalog
	store   *store
	options Options
	offset  int64
	indexed bool // the collection has an index for the query of a reopening

	unindexedQueries int64
	seen             map[bson.ObjectID]*bucket // the last state of each in memory
	why              map[bson.ObjectID]string
	preloaded        map[bson.ObjectID]bool
}

// changesTypes lists cases that differ. MongoDB has one open bucket per series, which a change of types closes. Here the buckets
// of other types stay open, because otherwise alternating types would cost a bucket each time. All other cases hold with one open
// bucket per series, and with the usual number.
var changesTypes = map[string]bool{
	"large_measurement_schema_change_fixed": true, "large_measurement_schema_change_7_0_bug": true,
	"minmax_scalar_object_array": true, "minmax_array_object_array": true, "minmax_null_then_number_is_a_schema_change": true,
	"schema_groups_1": true, "schema_groups_2": true, "schema_groups_5": true, "schema_groups_7": true,
	"schema_every_type_change_closes": true, reopensInVain: true,
}

// reopensInVain is a case in which MongoDB reopens a bucket and closes it at once, because its types differ. Here it is not
// reopened, since there may be a bucket with the right types.
const reopensInVain = "reopen_and_insert_incompatible"

// runInsertCase inserts a case's measurements and compares buckets and statistics.
func runInsertCase(t *testing.T, one conformanceCase) {
	if one.name != reopensInVain {
		runInsertCaseWith(t, one, 1)
	}
	if !changesTypes[one.name] {
		runInsertCaseWith(t, one, openKinds)
	}
}

func runInsertCaseWith(t *testing.T, one conformanceCase, mostOpen int) {
	run := newInsertRun(t, one, mostOpen)
	for i, step := range at(one.fields, "steps").(bson.A) {
		run.step(i, step.(bson.D))
	}
	if at(one.fields, "options.schemaCheckOnLarge") != false {
		run.checkBuckets(at(one.fields, "expect").(bson.D))
		return
	}
	t.Log("this case states a bug of MongoDB 6.3 to 8.0 that is not repeated: its schema change must be noticed")
	if run.catalog.Stats().BucketsClosedDueToSchemaChange == 0 {
		t.Error("the schema of a large measurement was not checked")
	}
}

func newInsertRun(t *testing.T, one conformanceCase, mostOpen int) *insertRun {
	t.Helper()
	options, limits := timeseries.Options{}, testLimits
	indexed, hasIndex := false, false
	for _, e := range at(one.fields, "options").(bson.D) {
		switch e.Key {
		case "timeField":
			options.TimeField = e.Value.(string)
		case "metaField":
			options.MetaField = e.Value.(string)
		case "granularity", "bucketMaxSpanSeconds", "bucketRoundingSeconds":
			setBucketing(t, &options, e)
		case "metaTimeIndex":
			indexed, hasIndex = e.Value.(bool), true
		case "maxCount":
			limits.MaxCount = int32(toInt(t, e.Value))
		case "minCount":
			limits.MinCount = int32(toInt(t, e.Value))
		case "maxSize", "maxBytes":
			limits.MaxBytes = int32(toInt(t, e.Value))
		case "cacheBytes":
			limits.CacheBytes = int64(toInt(t, e.Value))
		case "schemaCheckOnLarge":
		default:
			t.Fatalf("unknown option %s", e.Key)
		}
	}
	options, err := options.Normalize()
	if err != nil {
		t.Fatal(err)
	}
	r := &insertRun{
		t:         t,
		options:   Options{Collection: options, Limits: limits, Source: timeseries.Source{Topic: "cases"}, Reopen: true},
		indexed:   indexed || !hasIndex && options.MetaField != "",
		seen:      map[bson.ObjectID]*bucket{},
		why:       map[bson.ObjectID]string{},
		preloaded: map[bson.ObjectID]bool{},
	}
	r.catalog = New(r.options)
	r.catalog.mostOpen = mostOpen
	r.store = newStore(t, options)
	if preload := at(one.fields, "preload"); preload != nil {
		for _, d := range preload.(bson.A) {
			r.preload(d.(bson.D))
		}
	}
	return r
}

func setBucketing(t *testing.T, o *timeseries.Options, e bson.E) {
	t.Helper()
	switch e.Key {
	case "granularity":
		o.Granularity = timeseries.Granularity(e.Value.(string))
	case "bucketMaxSpanSeconds":
		o.MaxSpanSeconds = int32(toInt(t, e.Value))
	case "bucketRoundingSeconds":
		o.RoundingSeconds = int32(toInt(t, e.Value))
	default:
		t.Fatalf("unknown option %s", e.Key)
	}
}

// preload stores a bucket with count, size and positions, as if our catalog had written it. Some documents of cases are no
// buckets.
func (r *insertRun) preload(d bson.D) {
	id, ok := at(d, "_id").(bson.ObjectID)
	for ; r.preloaded[id]; id[11]++ { // cases of several collections repeat an _id
	}
	r.preloaded[id] = true
	times, _ := at(d, "data."+r.options.Collection.TimeField).(bson.D)
	if _, hasControl := at(d, "control").(bson.D); !ok || !hasControl || len(times) == 0 {
		r.store.put(id, d)
		return
	}
	count := len(times)
	var positions []timeseries.Position
	for range count {
		positions = append(positions, timeseries.Position{Offset: r.offset})
		r.offset++
	}
	d = set(r.t, d, "_id", id)
	for _, e := range []bson.E{
		{Key: "count", Value: int32(count)},
		{Key: "source.partition", Value: int32(0)},
		{Key: "source.topicId", Value: bson.Binary{Subtype: 4, Data: make([]byte, 16)}},
		{Key: "source.first", Value: positions[0].Offset},
		{Key: "source.last", Value: r.offset - 1},
		{Key: "source.offsets", Value: bson.A{bson.Binary{Data: timeseries.AppendPositions(nil, positions)}}},
	} {
		d = set(r.t, d, "control."+e.Key, e.Value)
	}
	r.store.put(id, d)
}

func (r *insertRun) step(i int, step bson.D) {
	r.t.Helper()
	for _, e := range step {
		switch e.Key {
		case "insert":
			r.insert(i, step, e.Value.(bson.A))
		case "collMod":
			to := r.options.Collection
			to.Granularity, to.MaxSpanSeconds, to.RoundingSeconds = "", 0, 0
			for _, option := range e.Value.(bson.D) {
				setBucketing(r.t, &to, option)
			}
			changed, err := r.options.Collection.Change(to)
			if err != nil {
				r.t.Fatalf("step %d: %v", i, err)
			}
			r.options.Collection, r.store.options = changed, changed
			r.catalog.SetCollection(changed)
		case "bucketCount":
			if want := toInt(r.t, e.Value); len(r.store.order) != want {
				r.t.Errorf("after step %d there are %d buckets, want %d", i, len(r.store.order), want)
			}
		case "oneBatch", "error", "notes":
		default:
			r.t.Fatalf("step %d: unknown field %s", i, e.Key)
		}
	}
}

func (r *insertRun) insert(i int, step bson.D, docs bson.A) {
	r.t.Helper()
	wanted, _ := at(step, "error").(string)
	oneBatch, _ := at(step, "oneBatch").(bool)
	for _, d := range docs {
		if failure := r.insertOne(d.(bson.D)); failure != wanted {
			r.t.Errorf("step %d: inserting %s: error %q, want %q", i, text(d), failure, wanted)
		}
		if !oneBatch {
			r.flush()
		}
	}
	r.flush()
}

// insertOne inserts a document and answers the catalog's look-ups. It returns the name of MongoDB's error.
func (r *insertRun) insertOne(d bson.D) string {
	r.t.Helper()
	o := &r.options.Collection
	time, ok := at(d, o.TimeField).(bson.DateTime)
	if !ok {
		return "BadValue" // a Decoder refuses this
	}
	m := measurement.Measurement{
		Position: timeseries.Position{Offset: r.offset},
		Time:     int64(time),
		Elements: elementsOf(r.t, d, o.TimeField, o.MetaField),
	}
	r.offset++
	if o.MetaField != "" {
		if value, err := bson.Raw(encode(r.t, d)).LookupErr(o.MetaField); err == nil {
			m.Meta = normalized(r.t, value)
		}
	}
	before := r.catalog.Stats()
	openBefore := r.openBuckets()
	if err := r.catalog.Insert(&m); err != nil {
		r.t.Fatalf("inserting %s: %v", text(d), err)
	}
	for lookups := r.catalog.Lookups(10); len(lookups) > 0; lookups = r.catalog.Lookups(10) {
		for _, l := range lookups {
			a := Answer{Lookup: l}
			if r.indexed || l.ID != (bson.ObjectID{}) {
				a = r.store.answer(l)
			} else {
				r.unindexedQueries++
			}
			r.catalog.Load([]Answer{a})
		}
	}
	r.observe(before, openBefore)
	return ""
}

// normalized returns a meta with sorted fields, as a Decoder returns it.
func normalized(t *testing.T, v bson.RawValue) bson.RawValue {
	var parsed any
	if err := v.Unmarshal(&parsed); err != nil {
		t.Fatal(err)
	}
	raw := bson.Raw(encode(t, bson.D{{Key: "v", Value: sorted(parsed)}}))
	return raw.Lookup("v")
}

func (r *insertRun) openBuckets() map[bson.ObjectID]bool {
	open := map[bson.ObjectID]bool{}
	for s := range r.catalog.series.all() {
		if s.open != nil {
			open[s.open.id] = true
		}
	}
	return open
}

// reasons maps a statistic to the reason of a bucket's end that it counts.
var reasons = map[string]string{
	"numBucketsClosedDueToCount":          "count",
	"numBucketsClosedDueToSize":           "size",
	"numBucketsClosedDueToCachePressure":  "cachePressure",
	"numBucketsClosedDueToSchemaChange":   "schemaChange",
	"numBucketsClosedDueToTimeForward":    "timeForward",
	"numBucketsArchivedDueToTimeBackward": "timeBackward",
	"numBucketsClosedDueToReopening":      "reopening",
}

// observe finds the buckets that an insert has ended, and the reasons, from the changed statistics.
func (r *insertRun) observe(before Stats, openBefore map[bson.ObjectID]bool) {
	maps.Copy(r.seen, r.catalog.buckets)
	moved := map[string]bool{}
	was := statistics(before)
	for name, n := range statistics(r.catalog.Stats()) {
		if why, ok := reasons[name]; ok && n > was[name] {
			moved[why] = true
		}
	}
	open := r.openBuckets()
	for id, b := range r.seen {
		if open[id] || r.why[id] != "" && !openBefore[id] || b.action == stay && !openBefore[id] {
			continue
		}
		r.why[id] = reasonOf(b, openBefore[id], moved)
	}
	for id := range open {
		delete(r.why, id)
	}
}

// reasonOf returns the reason why a bucket has just ended. moved are the reasons whose statistics changed with one insert. A
// reopened bucket can end the bucket that was open before, and then itself.
func reasonOf(b *bucket, wasOpen bool, moved map[string]bool) string {
	if wasOpen && moved["reopening"] {
		return "reopening"
	}
	for why := range moved {
		if why != "reopening" {
			return why
		}
	}
	return "unknown"
}

func (r *insertRun) flush() {
	r.t.Helper()
	f := r.catalog.Prepare(0)
	if f == nil {
		return
	}
	outcomes := make([]Outcome, len(f.Writes))
	for _, w := range f.Writes {
		if !r.store.apply(w) {
			r.t.Fatalf("a write of %s is not applied: filter %s", w.ID.Hex(), w.Filter)
		}
	}
	if rejected := r.catalog.Finish(f, outcomes, 0); len(rejected) > 0 {
		r.t.Fatalf("rejected: %v", rejected)
	}
}
