package timeseries

import (
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
)

var indexed = Options{TimeField: "t", MetaField: "m"}

// ext returns a document from Extended JSON, or nil for "".
func ext(t testing.TB, s string) bson.Raw {
	t.Helper()
	if s == "" {
		return nil
	}
	var raw bson.Raw
	if err := bson.UnmarshalExtJSON([]byte(s), false, &raw); err != nil {
		t.Fatalf("%s: %v", s, err)
	}
	return raw
}

func TestBucketIndexTranslatesOptions(t *testing.T) {
	for name, c := range map[string]struct{ keys, options, wantKeys, wantOptions string }{
		"name of the user's keys": {
			`{"m.host": 1, "t": -1}`, ``,
			`{"meta.host": 1, "control.max.t": -1, "control.min.t": -1}`, `{"name": "m.host_1_t_-1"}`,
		},
		"name with a kind": {`{"m": "hashed"}`, ``, `{"meta": "hashed"}`, `{"name": "m_hashed"}`},
		"own name and the rest": {
			`{"x": 1}`, `{"name": "mine", "hidden": true, "unique": false}`,
			`{"control.min.x": 1, "control.max.x": 1}`, `{"hidden": true, "name": "mine"}`,
		},
		"sparse on the time": {`{"t": -1}`, `{"sparse": true}`, `{"control.max.t": -1, "control.min.t": -1}`, `{"sparse": true, "name": "t_-1"}`},
		"sparse on time and meta": {
			`{"m.a": 1, "t": 1}`, `{"sparse": true}`,
			`{"meta.a": 1, "control.min.t": 1, "control.max.t": 1}`, `{"sparse": true, "name": "m.a_1_t_1"}`,
		},
		"sparse on the meta":   {`{"m.a": 1}`, `{"sparse": true}`, `{"meta.a": 1}`, `{"sparse": true, "name": "m.a_1"}`},
		"wildcard on the meta": {`{"m.$**": 1}`, ``, `{"meta.$**": 1}`, `{"name": "m.$**_1"}`},
		"partial": {
			`{"x": 1}`, `{"partialFilterExpression": {"m.a": {"$gt": 1}}}`,
			`{"control.min.x": 1, "control.max.x": 1}`, `{"name": "x_1", "partialFilterExpression": {"meta.a": {"$gt": 1}}}`,
		},
		"TTL": {
			`{"t": -1}`, `{"expireAfterSeconds": 60, "partialFilterExpression": {"m.a": 1}}`,
			`{"control.min.t": -1}`, `{"name": "t_-1", "partialFilterExpression": {"meta.a": 1, "control.segment.owner": null}, "expireAfterSeconds": 3660}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := indexed.BucketIndex(Index{Keys: ext(t, c.keys), Options: ext(t, c.options)})
			if err != nil {
				t.Fatal(err)
			}
			sameDocument(t, "the key", got.Keys, objectValue(ext(t, c.wantKeys)))
			sameDocument(t, "the options", got.Options, objectValue(ext(t, c.wantOptions)))
		})
	}
}

func TestBucketIndexRefuses(t *testing.T) {
	for name, c := range map[string]struct{ keys, options, want string }{
		"no keys":                 {`{}`, ``, "BadValue"},
		"empty name":              {`{"": 1}`, ``, "CannotCreateIndex"},
		"empty name in a path":    {`{"m..a": 1}`, ``, "CannotCreateIndex"},
		"wildcard":                {`{"$**": 1}`, ``, "CannotCreateIndex"},
		"wildcard of measurement": {`{"x.$**": 1}`, ``, "CannotCreateIndex"},
		"2dsphere on time":        {`{"t": "2dsphere"}`, ``, "CannotCreateIndex"},
		"2d on measurement":       {`{"x": "2d"}`, ``, "CannotCreateIndex"},
		"true as direction":       {`{"x": true}`, ``, "CannotCreateIndex"},
		"text":                    {`{"m": 1, "x": "text"}`, ``, "InvalidOptions"},
		"text on the meta":        {`{"m": "text"}`, ``, "InvalidOptions"},
		"unique":                  {`{"m": 1}`, `{"unique": true}`, "InvalidOptions"},
		"unique soon":             {`{"m": 1}`, `{"prepareUnique": 1}`, "InvalidOptions"},
		"keys as an option":       {`{"m": 1}`, `{"key": {"x": 1}}`, "InvalidOptions"},
		"sparse on measurement":   {`{"m": 1, "x": 1}`, `{"sparse": 1}`, "InvalidOptions"},
		"sparse below the time":   {`{"t.a": 1}`, `{"sparse": true}`, "InvalidOptions"},
		"sparse with the time":    {`{"t": 1, "x": 1}`, `{"sparse": true}`, "InvalidOptions"},
		"partial on measurement":  {`{"x": 1}`, `{"partialFilterExpression": {"x": 1}}`, "InvalidOptions"},
		"partial no object":       {`{"x": 1}`, `{"partialFilterExpression": 1}`, "InvalidOptions"},
		"partial with collation": {
			`{"x": 1}`, `{"partialFilterExpression": {"m": 1}, "collation": {"locale": "en"}}`, "IndexOptionsConflict",
		},
		"TTL without partial":    {`{"t": 1}`, `{"expireAfterSeconds": 60}`, "InvalidOptions"},
		"TTL on two fields":      {`{"t": 1, "m": 1}`, `{"expireAfterSeconds": 60, "partialFilterExpression": {"m": 1}}`, "CannotCreateIndex"},
		"TTL on two others":      {`{"m.a": 1, "m.b": 1}`, `{"expireAfterSeconds": 60, "partialFilterExpression": {"m": 1}}`, "CannotCreateIndex"},
		"TTL on two, no partial": {`{"t": 1, "m": 1}`, `{"expireAfterSeconds": 60}`, "InvalidOptions"},
		"TTL on another field":   {`{"m": 1}`, `{"expireAfterSeconds": 60, "partialFilterExpression": {"m": 1}}`, "InvalidOptions"},
		"TTL beyond the largest": {`{"t": 1}`, `{"expireAfterSeconds": 2147483647, "partialFilterExpression": {"m": 1}}`, "InvalidOptions"},
		"TTL negative":           {`{"t": 1}`, `{"expireAfterSeconds": -1, "partialFilterExpression": {"m": 1}}`, "InvalidOptions"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := indexed.BucketIndex(Index{Keys: ext(t, c.keys), Options: ext(t, c.options)})
			if got := codeOf(t, err); got != c.want {
				t.Errorf("got %q (%v), want %q", got, err, c.want)
			}
		})
	}
}

func TestBucketShardKeyAndHint(t *testing.T) {
	got, err := indexed.BucketShardKey(ext(t, `{"m.host": "hashed", "t": 1}`))
	if err != nil {
		t.Fatal(err)
	}
	sameDocument(t, "the shard key", got, objectValue(ext(t, `{"meta.host": "hashed", "control.min.t": 1}`)))
	hint, err := indexed.bucketKeys(ext(t, `{"m": 1, "t": 1}`))
	if err != nil {
		t.Fatal(err)
	}
	sameDocument(t, "the hint", hint, objectValue(ext(t, `{"meta": 1, "control.min.t": 1, "control.max.t": 1}`)))
	for _, keys := range []string{`{"x": 1}`, `{"t": "hashed"}`} {
		if _, err := indexed.BucketShardKey(ext(t, keys)); codeOf(t, err) != "InvalidOptions" {
			t.Errorf("%s: %v, want InvalidOptions", keys, err)
		}
	}
}

func TestTTLIsNeverTooEarly(t *testing.T) {
	o, err := Options{TimeField: "t", Granularity: Minutes, ExpireAfterSeconds: 10}.Normalize()
	if err != nil {
		t.Fatal(err)
	}
	if got := o.TTLSeconds(); got != 86410 {
		t.Errorf("TTLSeconds = %d, want 86410", got)
	}
	const now = 1_700_000_000_000
	before := now - int64(o.TTLSeconds())*1000
	newest := before + o.Span() - 1 // the last time that belongs to a bucket with this minimum
	if newest >= now-10_000 {
		t.Errorf("a measurement of %d, %d ms old, is deleted", newest, now-newest)
	}
	o.ExpireAfterSeconds = 0
	if o.TTLSeconds() != 0 {
		t.Error("a collection without expiry expires")
	}
}
