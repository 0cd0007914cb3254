package timeseries

import (
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"waterwheel/internal/timeseries/rawbson"
)

// builder appends the elements of one document.
type builder struct{ bytes []byte }

func newBuilder() *builder { return &builder{bytes: make([]byte, 4)} }

func (b *builder) add(name string, v bson.RawValue) {
	b.bytes = append(rawbson.AppendHeader(b.bytes, v.Type, name), v.Value...)
}

func (b *builder) document() bson.Raw { return rawbson.EndDocument(b.bytes, 0) }

// rewrite builds a document from another, element by element. what begins the sentence about a malformed document.
func rewrite(document bson.Raw, what string, add func(b *builder, name string, v bson.RawValue) error) (bson.Raw, error) {
	b := newBuilder()
	var from cursor
	for from.open(document); from.next(); {
		if err := add(b, string(from.key), from.value()); err != nil {
			return nil, err
		}
	}
	if from.err != nil {
		return nil, refuse(codeBadValue, "%s %v", what, from.err)
	}
	return b.document(), nil
}

func isEmpty(document bson.Raw) bool { return len(document) == rawbson.Empty }

func objectValue(document bson.Raw) bson.RawValue {
	return bson.RawValue{Type: bson.TypeEmbeddedDocument, Value: document}
}

func int32Value(n int32) bson.RawValue {
	return bson.RawValue{Type: bson.TypeInt32, Value: bsoncore.AppendInt32(nil, n)}
}

func int64Value(n int64) bson.RawValue {
	return bson.RawValue{Type: bson.TypeInt64, Value: bsoncore.AppendInt64(nil, n)}
}

func stringValue(s string) bson.RawValue {
	return bson.RawValue{Type: bson.TypeString, Value: rawbson.AppendString(nil, s)}
}
