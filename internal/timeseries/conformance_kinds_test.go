package timeseries

import (
	"encoding/binary"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// document returns a field of a sample as a document. It returns nil if the field is absent.
func document(t *testing.T, v bson.RawValue) bson.Raw {
	t.Helper()
	if v.Type == 0 {
		return nil
	}
	d, ok := v.DocumentOK()
	if !ok {
		t.Fatalf("%v is no object", v)
	}
	return d
}

// sameDocument compares documents field by field in their order. Numbers are compared by value.
func sameDocument(t *testing.T, what string, got bson.Raw, want bson.RawValue) {
	t.Helper()
	if Compare(objectValue(got), want) != 0 {
		t.Errorf("%s is %v, want %v", what, got, want)
	}
}

// runOptionsSample checks a creation with "options", or a change "from" one definition "to" another.
func runOptionsSample(t *testing.T, c conformanceCase, s sample) {
	want := s.wantError()
	var got Options
	var err error
	create, to := document(t, s.take("from", "options", "create")), document(t, s.take("to", "collMod"))
	if create == nil {
		create = c.Options
	}
	options := readOptions(t, create)
	if options.TimeField == "" && to != nil {
		options.TimeField = "t"
	}
	if to != nil {
		got, err = options.Change(readOptions(t, to))
	} else {
		got, err = options.Normalize()
	}
	expect := s.take("expect", "effective", "result")
	if !checkError(t, err, want) || expect.Type == 0 {
		return
	}
	wanted := readOptions(t, document(t, expect))
	span, rounding := got.bucketing()
	if wanted.MaxSpanSeconds != 0 && wanted.MaxSpanSeconds != span ||
		wanted.RoundingSeconds != 0 && wanted.RoundingSeconds != rounding ||
		wanted.Granularity != "" && wanted.Granularity != got.Granularity {
		t.Errorf("got %+v with rounding %d, want %+v", got, rounding, wanted)
	}
}

// runIndexSample checks the keys of an index ("spec"), a specification of createIndexes (with "key"), a shard key ("shardKey") or
// a hint, with options where they are given.
func runIndexSample(t *testing.T, c conformanceCase, s sample) {
	o, want := readOptions(t, c.Options), s.wantError()
	for name, translate := range map[string]func(bson.Raw) (bson.Raw, error){"shardKey": o.BucketShardKey, "hint": o.bucketKeys} {
		if key := s.take(name); key.Type != 0 {
			got, err := translate(document(t, key))
			wanted := s.take("buckets", "bucketKey", "bucketKeys", "bucketHint", "bucketShardKey")
			if checkError(t, err, want) {
				sameDocument(t, "the "+name, got, wanted)
			}
			return
		}
	}
	user := indexOf(t, document(t, s.need(t, "spec", "index", "key", "keys")))
	if options := document(t, s.take("options", "indexOptions")); options != nil {
		user.Options = options
	}
	got, err := o.BucketIndex(user)
	buckets, options := s.take("buckets", "bucketSpec", "bucketKey", "bucketKeys", "bucketIndex"), s.take("bucketOptions")
	if !checkError(t, err, want) {
		return
	}
	wanted := indexOf(t, document(t, buckets))
	sameDocument(t, "the key", got.Keys, objectValue(wanted.Keys))
	if options.Type == 0 && wanted.Options != nil {
		options = objectValue(wanted.Options)
	}
	if options.Type != 0 {
		sameFields(t, "the options", got.Options, options)
	}
}

// indexOf returns an index from its keys, or from a specification of createIndexes, whose keys are an object "key".
func indexOf(t *testing.T, spec bson.Raw) Index {
	t.Helper()
	key, ok := spec.Lookup("key").DocumentOK()
	if !ok {
		return Index{Keys: spec}
	}
	rest := newBuilder()
	elements, err := spec.Elements()
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range elements {
		if e.Key() != "key" && e.Key() != "v" {
			rest.add(e.Key(), e.Value())
		}
	}
	return Index{Keys: key, Options: rest.document()}
}

// sameFields compares documents and ignores the order of fields. The got document may have a name even if none is wanted.
func sameFields(t *testing.T, what string, got bson.Raw, want bson.RawValue) {
	t.Helper()
	left := map[string]bson.RawValue{}
	for _, d := range []bson.Raw{got, document(t, want)} {
		elements, err := d.Elements()
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range elements {
			if have, ok := left[e.Key()]; ok && Compare(have, e.Value()) == 0 {
				delete(left, e.Key())
			} else {
				left[e.Key()] = e.Value()
			}
		}
	}
	if _, named := document(t, want).LookupErr("name"); named != nil {
		delete(left, "name")
	}
	if len(left) > 0 {
		t.Errorf("%s are %v, want %v", what, got, want)
	}
}

// runUpdateSample checks an update with "u", or a delete without it. Both may have the form of the commands, with "updates" or
// "deletes".
func runUpdateSample(t *testing.T, c conformanceCase, s sample) {
	o, want := readOptions(t, c.Options), s.wantError()
	if own := s.take("options"); own.Type != 0 {
		o = readOptions(t, document(t, own))
	}
	unwrap(t, s, "updates")
	unwrap(t, s, "deletes")
	query, update, multi := document(t, s.need(t, "q", "query")), s.take("u", "update"), s.flag(true, "multi")
	wantQuery, wantUpdate := s.take("bucketQ", "bucketQuery"), s.take("bucketU", "bucketUpdate")
	if hint := s.take("hint"); hint.Type != 0 {
		got, err := o.bucketKeys(document(t, hint))
		if wanted := s.take("bucketHint"); checkError(t, err, "") {
			sameDocument(t, "the hint", got, wanted)
		}
	}
	if update.Type == 0 {
		if limit := s.take("limit"); limit.Type != 0 {
			multi = !isTrue(limit)
		}
		s.take("delete")
		got, err := o.BucketDelete(MetaDelete{Query: query, Multi: multi})
		if checkError(t, err, want) {
			sameDocument(t, "the query", got, wantQuery)
		}
		return
	}
	gotQuery, gotUpdate, err := o.BucketUpdate(MetaUpdate{
		Query: query, Update: update, Multi: multi, Upsert: s.flag(false, "upsert"),
	})
	if checkError(t, err, want) {
		sameDocument(t, "the query", gotQuery, wantQuery)
		sameDocument(t, "the update", gotUpdate, wantUpdate)
	}
}

// unwrap puts the only operation in the array of a command into the sample.
func unwrap(t *testing.T, s sample, name string) {
	t.Helper()
	list := s.take(name)
	if list.Type == 0 {
		return
	}
	operations, err := elementsOf(list)
	if err != nil || len(operations) != 1 {
		t.Fatalf("%s has %d operations (%v): one is understood", name, len(operations), err)
	}
	s.take("update", "delete") // the name of the collection
	fields, err := elementsOf(operations[0].Value())
	if err != nil {
		t.Fatal(err)
	}
	if _, given := s["multi"]; name == "updates" && !given {
		s["multi"] = bson.RawValue{Type: bson.TypeBoolean, Value: []byte{0}}
	}
	for _, f := range fields {
		s[f.Key()] = f.Value()
	}
}

// runTTLSample checks whether a bucket is expired at a time.
func runTTLSample(t *testing.T, _ conformanceCase, s sample) {
	seconds := int32(s.number(t, "bucketMaxSpanSeconds", "spanSeconds", "span"))
	o := Options{
		MaxSpanSeconds: seconds, RoundingSeconds: seconds,
		ExpireAfterSeconds: s.number(t, "expireAfterSeconds", "expireAfter"),
	}
	after := int64(o.TTLSeconds())
	want, oldest, now := s.need(t, "deleted", "expired"), s.number(t, "minTime", "min"), s.number(t, "now")
	if got := after > 0 && oldest <= now-after*1000; got != isTrue(want) {
		t.Errorf("deleted is %v, want %v", got, want)
	}
}

// runIDSample checks the timestamp in the _id of a bucket.
func runIDSample(t *testing.T, _ conformanceCase, s sample) {
	minTime := int64(0)
	if v := s.take("minTime", "time", "rounded"); v.Type != 0 {
		minTime, _ = v.DateTimeOK()
	} else {
		minTime = s.number(t, "seconds") * 1000
	}
	id := BucketID(Source{}, Position{}, 0, minTime)
	timestamp := binary.BigEndian.Uint32(id[:4])
	if want := s.take("extended"); want.Type != 0 && isTrue(want) != (timestamp>>31 == 1) {
		t.Errorf("timestamp %#x: extended should be %v", timestamp, want)
	}
	if want := s.take("timestamp", "idSeconds"); want.Type != 0 {
		if n, _ := want.AsInt64OK(); uint32(n) != timestamp {
			t.Errorf("timestamp is %d, want %d", timestamp, uint32(n))
		}
	}
}

// runRoundSample checks the minimum time of the bucket that a time opens.
func runRoundSample(t *testing.T, c conformanceCase, s sample) {
	o := readOptions(t, c.Options)
	if own := s.take("options"); own.Type != 0 {
		o = readOptions(t, document(t, own))
	}
	if granularity, ok := s.take("granularity").StringValueOK(); ok {
		o.Granularity = Granularity(granularity)
	}
	if rounding := s.take("bucketRoundingSeconds", "roundingSeconds", "rounding"); rounding.Type != 0 {
		n, _ := rounding.AsInt64OK()
		o = Options{MaxSpanSeconds: int32(n), RoundingSeconds: int32(n)}
	}
	want := s.number(t, "rounded", "expect", "want", "min", "minTime", "to", "out")
	if got := o.Round(s.number(t, "time", "t", "from", "in", "value")); got != want {
		t.Errorf("rounded to %d, want %d", got, want)
	}
}

// runCacheSample checks the limits for the size of a bucket that follow from the size of the cache.
func runCacheSample(t *testing.T, c conformanceCase, s sample) {
	cacheBytes := int64(0)
	if v := s.take("cacheMB", "cacheSizeMB"); v.Type != 0 {
		n, _ := v.AsInt64OK()
		cacheBytes = n << 20
	} else {
		cacheBytes = s.number(t, "cacheBytes", "cache", "cacheSize")
	}
	active := s.number(t, "activeBuckets", "active", "numActiveBuckets", "buckets")
	limits := Limits{MaxBytes: 125 << 10, CacheBytes: cacheBytes}
	if v := s.take("maxSize", "bucketMaxSize"); v.Type != 0 {
		n, _ := v.AsInt64OK()
		limits.MaxBytes = int32(n)
	}
	floor := int32(cacheBytesFloor)
	if v := s.take("minSize", "bucketMinSize"); v.Type != 0 {
		n, _ := v.AsInt64OK()
		floor = int32(n)
	}
	effective, absolute := limits.Sizes(active)
	checked := false
	for name, got := range map[string]int32{
		"derived": derivedSize(cacheBytes, active, floor), "derivedSize": derivedSize(cacheBytes, active, floor),
		"expect": derivedSize(cacheBytes, active, floor), "size": derivedSize(cacheBytes, active, floor),
		"effective": effective, "effectiveMaxSize": effective, "absolute": absolute, "absoluteMaxSize": absolute,
	} {
		if want := s.take(name); want.Type != 0 {
			checked = true
			if n, ok := want.AsInt64OK(); !ok || n != int64(got) {
				t.Errorf("%s is %d, want %v", name, got, want)
			}
		}
	}
	if !checked {
		t.Errorf("the sample %v expects nothing known of %s", s, c.Name)
	}
}
