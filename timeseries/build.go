package timeseries

import (
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"
)

// builder appends the elements of one document.
type builder struct {
	bytes []byte
	start int32
}

func newBuilder() *builder {
	b := &builder{}
	b.start, b.bytes = bsoncore.AppendDocumentStart(nil)
	return b
}

func (b *builder) add(name string, v bson.RawValue) {
	b.bytes = append(b.bytes, byte(v.Type))
	b.bytes = append(b.bytes, name...)
	b.bytes = append(b.bytes, 0)
	b.bytes = append(b.bytes, v.Value...)
}

// empty tells whether nothing was added yet.
func (b *builder) empty() bool { return len(b.bytes) == 4 }

func (b *builder) document() bson.Raw {
	b.bytes, _ = bsoncore.AppendDocumentEnd(b.bytes, b.start)
	return b.bytes
}

func objectValue(document bson.Raw) bson.RawValue {
	return bson.RawValue{Type: bson.TypeEmbeddedDocument, Value: document}
}

func stringValue(s string) bson.RawValue {
	return bson.RawValue{Type: bson.TypeString, Value: bsoncore.AppendString(nil, s)}
}
