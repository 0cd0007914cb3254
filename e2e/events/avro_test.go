package events_test

import (
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/e2e/events"
)

// TestReadingsInAvro compares the schema and the bytes of a reading with those of Avro's specification.
func TestReadingsInAvro(t *testing.T) {
	schema, value := events.InAvro(events.Reading{Time: 1, Meta: bson.D{{Key: "site", Value: "n"}}, Fields: bson.D{
		{Key: "n", Value: int32(-1)}, {Key: "list", Value: bson.A{int32(2), "a", int32(3)}}, {Key: "none", Value: nil}, {Key: "empty", Value: bson.A{}}, {Key: "on", Value: true},
	}}, 7)
	const want = `{"doc":"version 7","type":"record","name":"Record1","fields":[{"name":"time","type":{"type":"long","logicalType":"timestamp-millis"}},` +
		`{"name":"meta","type":{"type":"record","name":"Record2","fields":[{"name":"site","type":"string"}]}},{"name":"n","type":"int"},` +
		`{"name":"list","type":{"type":"array","items":["int","string"]}},{"name":"none","type":"null"},{"name":"empty","type":{"type":"array","items":"null"}},{"name":"on","type":"boolean"}]}`
	if schema != want {
		t.Errorf("the schema is\n%s\nnot\n%s", schema, want)
	}
	if bytes := "\x02" + "\x02n" + "\x01" + "\x06\x00\x04\x02\x02a\x00\x06\x00" + "\x00" + "\x01"; string(value) != bytes {
		t.Errorf("the bytes are %x, not %x", value, bytes)
	}
}
