package timeseries

import (
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
)

func TestBucketQuery(t *testing.T) {
	for query, want := range map[string]string{
		`{}`:                                     `{}`,
		`{"m": 1, "m.a.b": 2}`:                   `{"meta": 1, "meta.a.b": 2}`,
		`{"m": {"m": 1}, "$comment": "c"}`:       `{"meta": {"m": 1}, "$comment": "c"}`,
		`{"$and": [{"$nor": [{"m.a": 1}]}, {}]}`: `{"$and": [{"$nor": [{"meta.a": 1}]}, {}]}`,
		`{"$jsonSchema": {"bsonType": "object", "required": ["m"], "properties": {"m": {"required": ["m"]}}}}`: `{"$jsonSchema": {"bsonType": "object", "required": ["meta"], "properties": {"meta": {"required": ["m"]}}}}`,
	} {
		got, err := indexed.BucketQuery(ext(t, query))
		if err != nil {
			t.Errorf("%s: %v", query, err)
			continue
		}
		sameDocument(t, query, got, objectValue(ext(t, want)))
	}
}

func TestBucketQueryRefuses(t *testing.T) {
	for query, want := range map[string]string{
		`{"x": 1}`:                                   "InvalidOptions",
		`{"mx": 1}`:                                  "InvalidOptions",
		`{"t": 1}`:                                   "InvalidOptions",
		`{"meta": 1}`:                                "InvalidOptions",
		`{"$or": [{"m": 1}, {"x": 1}]}`:              "InvalidOptions",
		`{"$or": {"m": 1}}`:                          "BadValue",
		`{"$or": [1]}`:                               "BadValue",
		`{"$expr": {"$eq": ["$m", 1]}}`:              "InvalidOptions",
		`{"$where": "1"}`:                            "InvalidOptions",
		`{"$text": {"$search": "x"}}`:                "InvalidOptions",
		`{"$jsonSchema": 1}`:                         "BadValue",
		`{"$jsonSchema": {"required": ["x"]}}`:       "InvalidOptions",
		`{"$jsonSchema": {"required": [1]}}`:         "InvalidOptions",
		`{"$jsonSchema": {"properties": {"x": {}}}}`: "InvalidOptions",
		strings.Repeat(`{"$and": [`, 150) + `{}` + strings.Repeat(`]}`, 150): "BadValue",
	} {
		if _, err := indexed.BucketQuery(ext(t, query)); codeOf(t, err) != want {
			t.Errorf("%.80s: %v, want %s", query, err, want)
		}
	}
}

func TestBucketUpdateRefuses(t *testing.T) {
	set := bson.RawValue{Type: bson.TypeEmbeddedDocument, Value: ext(t, `{"$set": {"m": 1}}`)}
	for name, c := range map[string]struct {
		options Options
		update  MetaUpdate
	}{
		"no meta field": {Options{TimeField: "t"}, MetaUpdate{Update: set, Multi: true}},
		"single":        {indexed, MetaUpdate{Update: set}},
		"upsert":        {indexed, MetaUpdate{Update: set, Multi: true, Upsert: true}},
		"no object":     {indexed, MetaUpdate{Update: stringValue("x"), Multi: true}},
		"nothing":       {indexed, MetaUpdate{Update: objectValue(ext(t, `{}`)), Multi: true}},
		"no fields":     {indexed, MetaUpdate{Update: objectValue(ext(t, `{"$set": 1}`)), Multi: true}},
		"rename to 1":   {indexed, MetaUpdate{Update: objectValue(ext(t, `{"$rename": {"m.a": 1}}`)), Multi: true}},
	} {
		c.update.Query = ext(t, `{}`)
		if _, _, err := c.options.BucketUpdate(c.update); codeOf(t, err) != "InvalidOptions" {
			t.Errorf("%s: %v, want InvalidOptions", name, err)
		}
	}
}

func TestBucketDelete(t *testing.T) {
	got, err := indexed.BucketDelete(MetaDelete{Query: ext(t, `{"m.a": 1}`), Multi: true})
	if err != nil {
		t.Fatal(err)
	}
	sameDocument(t, "the query", got, objectValue(ext(t, `{"meta.a": 1}`)))
	if _, err := indexed.BucketDelete(MetaDelete{Query: ext(t, `{}`)}); codeOf(t, err) != "IllegalOperation" {
		t.Errorf("a single delete: %v, want IllegalOperation", err)
	}
	single := Options{TimeField: "t"}
	if _, err := single.BucketDelete(MetaDelete{Query: ext(t, `{}`), Multi: true}); err != nil {
		t.Errorf("deleting everything: %v", err)
	}
	if _, err := single.BucketDelete(MetaDelete{Query: ext(t, `{"m": 1}`), Multi: true}); codeOf(t, err) != "InvalidOptions" {
		t.Errorf("a delete by meta without metaField: %v, want InvalidOptions", err)
	}
}

// TestReadQueryTakesExpressions checks $expr. On the meta, MongoDB can use it to read a time series. Other fields of measurements
// do not exist in a bucket under their names.
func TestReadQueryTakesExpressions(t *testing.T) {
	for query, want := range map[string]string{
		`{"$expr": {"$eq": ["$m", 1]}}`:                                       `{"$expr": {"$eq": ["$meta", 1]}}`,
		`{"m.a": 1, "$or": [{"$expr": {"$gt": ["$m.a.b", "$m.c"]}}]}`:         `{"meta.a": 1, "$or": [{"$expr": {"$gt": ["$meta.a.b", "$meta.c"]}}]}`,
		`{"$expr": {"$eq": ["$m.a", {"$literal": "$x"}]}}`:                    `{"$expr": {"$eq": ["$meta.a", {"$literal": "$x"}]}}`,
		`{"$expr": {"$lt": ["$$NOW", {"$toDate": "$m.until"}]}}`:              `{"$expr": {"$lt": ["$$NOW", {"$toDate": "$meta.until"}]}}`,
		`{"$expr": {"$eq": ["m", "$m"]}}`:                                     `{"$expr": {"$eq": ["m", "$meta"]}}`,
		`{"$expr": {"$getField": {"field": "a.b", "input": "$m"}}}`:           `{"$expr": {"$getField": {"field": "a.b", "input": "$meta"}}}`,
		`{"$expr": {"$let": {"vars": {"m": "$m.a"}, "in": {"$not": "$$m"}}}}`: `{"$expr": {"$let": {"vars": {"m": "$meta.a"}, "in": {"$not": "$$m"}}}}`,
		`{"$expr": true}`: `{"$expr": true}`,
	} {
		got, err := indexed.ReadQuery(ext(t, query))
		if err != nil {
			t.Errorf("%s: %v", query, err)
			continue
		}
		sameDocument(t, query, got, objectValue(ext(t, want)))
	}
	for query, want := range map[string]string{
		`{"$expr": {"$gt": ["$x", 1]}}`:                                          "InvalidOptions",
		`{"$expr": "$t"}`:                                                        "InvalidOptions",
		`{"$expr": {"$eq": ["$meta", 1]}}`:                                       "InvalidOptions",
		`{"$expr": {"$eq": ["$$ROOT.m", 1]}}`:                                    "InvalidOptions",
		`{"$expr": "$$CURRENT"}`:                                                 "InvalidOptions",
		`{"$nor": [{"$expr": {"$getField": "m"}}]}`:                              "InvalidOptions",
		`{"$expr": {"$getField": {"field": "m"}}}`:                               "InvalidOptions",
		`{"$where": "1"}`:                                                        "InvalidOptions",
		`{"$expr": ` + strings.Repeat(`[`, 150) + strings.Repeat(`]`, 150) + `}`: "BadValue",
	} {
		if _, err := indexed.ReadQuery(ext(t, query)); codeOf(t, err) != want {
			t.Errorf("%.80s: %v, want %s", query, err, want)
		}
	}
	if _, err := indexed.BucketQuery(ext(t, `{"$expr": {"$eq": ["$m", 1]}}`)); err == nil || !strings.Contains(err.Error(), "$expr is supported only for reading") {
		t.Errorf("an edit is told %v", err)
	}
	if _, err := (Options{TimeField: "t"}).ReadQuery(ext(t, `{"$expr": {"$eq": ["$meta", 1]}}`)); codeOf(t, err) != "InvalidOptions" {
		t.Errorf("without a meta: %v", err)
	}
}

// FuzzTranslate checks that no bytes make a translation panic, and that its output is well-formed.
func FuzzTranslate(f *testing.F) {
	for _, s := range []string{
		`{"$or": [{"m": 1}, {"$jsonSchema": {"required": ["m"]}}]}`, `{"$rename": {"m.a": "m.b"}}`, `{"m": 1, "t": -1, "x.y": "2dsphere"}`,
		`{"$expr": {"$in": ["$m.a", [{"$literal": 1}, "$$NOW", {"$getField": {"field": "x", "input": "$m"}}]]}}`,
		`{"name": "x", "sparse": true, "partialFilterExpression": {"m": 1}, "expireAfterSeconds": 5}`,
	} {
		f.Add([]byte(ext(f, s)))
	}
	keys := ext(f, `{"t": 1}`)
	f.Fuzz(func(t *testing.T, b []byte) {
		query, err := indexed.BucketQuery(b)
		checkTranslation(t, query, err)
		query, err = indexed.ReadQuery(b)
		checkTranslation(t, query, err)
		_, update, err := indexed.BucketUpdate(MetaUpdate{Query: ext(t, `{}`), Update: objectValue(b), Multi: true})
		checkTranslation(t, update, err)
		index, err := indexed.BucketIndex(Index{Keys: b})
		checkTranslation(t, index.Keys, err)
		index, err = indexed.BucketIndex(Index{Keys: keys, Options: b})
		checkTranslation(t, index.Options, err)
	})
}

func checkTranslation(t *testing.T, got bson.Raw, err error) {
	t.Helper()
	if err != nil {
		codeOf(t, err)
		return
	}
	var fields cursor
	for fields.open(got); fields.next(); {
	}
	if fields.err != nil {
		t.Fatalf("the translation %x is broken", []byte(got))
	}
}
