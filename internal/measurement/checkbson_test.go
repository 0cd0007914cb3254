package measurement

import (
	"bytes"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries/rawbson"
)

// everyType returns a document with a value of each BSON type.
func everyType(t testing.TB) bson.Raw {
	t.Helper()
	var raw bson.Raw
	err := bson.UnmarshalExtJSON([]byte(`{"double": 1.5, "string": "é", "object": {"a": {"b": []}}, "array": [1, "x", {"y": null}],
		"binary": {"$binary": {"base64": "AQID", "subType": "00"}}, "old": {"$binary": {"base64": "AQID", "subType": "02"}},
		"undefined": {"$undefined": true}, "oid": {"$oid": "0123456789abcdef01234567"}, "bool": true, "date": {"$date": {"$numberLong": "5"}},
		"null": null, "regex": {"$regularExpression": {"pattern": "a", "options": "i"}},
		"pointer": {"$dbPointer": {"$ref": "n", "$id": {"$oid": "0123456789abcdef01234567"}}}, "code": {"$code": "f()"},
		"symbol": {"$symbol": "s"}, "scoped": {"$code": "g()", "$scope": {"z": 1}}, "int32": 5,
		"timestamp": {"$timestamp": {"t": 1, "i": 2}}, "int64": {"$numberLong": "5"}, "decimal": {"$numberDecimal": "1"},
		"min": {"$minKey": 1}, "max": {"$maxKey": 1}}`), true, &raw)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

var bsonOptions = Options{Format: BSON, MetaFrom: MetaFromNone}

func TestBSONIsKept(t *testing.T) {
	raw := everyType(t)
	m := decodeOne(t, newDecoder(t, bsonOptions), recordOf(string(raw)))
	if !bytes.Equal(document(t, m.Elements), raw) {
		t.Errorf("got  %s\nwant %s", document(t, m.Elements), raw)
	}
}

// TestCorruptBSON sets each single byte of a document to several values. A result that still decodes must be a document that the
// driver accepts.
func TestCorruptBSON(t *testing.T) {
	raw := everyType(t)
	d := newDecoder(t, bsonOptions)
	refused := 0
	for i := range raw {
		for _, b := range []byte{0, 1, 2, 3, 4, 5, 0x0F, 0x12, 0x7F, 0x80, 0xFF, raw[i] + 1, raw[i] - 1} {
			corrupt := bytes.Clone(raw)
			corrupt[i] = b
			if _, err := d.Decode(recordOf(string(corrupt))); err != nil {
				refused++
				continue
			}
			if err := bson.Raw(corrupt).Validate(); err != nil {
				t.Errorf("byte %d set to 0x%02x: accepted, the driver says %v", i, b, err)
			}
		}
		refusal(t, d, recordOf(string(raw[:i])))
	}
	if refused < len(raw)*4 {
		t.Errorf("only %d of %d corruptions were refused", refused, len(raw)*13)
	}
}

func TestBSONArraysAreNumberedAnew(t *testing.T) {
	array := rawbson.EndDocument(append(append(make([]byte, 4), rawbson.AppendHeader(nil, bson.TypeNull, []byte("a.b"))...), 0x0A, 'x', 0), 0)
	event := rawbson.EndDocument(append(rawbson.AppendHeader(make([]byte, 4), bson.TypeArray, []byte("v")), array...), 0)
	m := decodeOne(t, newDecoder(t, bsonOptions), recordOf(string(event)))
	if got := document(t, m.Elements).String(); got != `{"v": [null,null]}` || !bytes.Contains(m.Elements, []byte{0x0A, '1', 0}) {
		t.Errorf("%s %x", got, m.Elements)
	}
}

func TestDeepBSON(t *testing.T) {
	nested := func(depth int) string {
		event := []byte{5, 0, 0, 0, 0}
		for range depth - 1 {
			event = rawbson.EndDocument(append(rawbson.AppendHeader(make([]byte, 4), bson.TypeEmbeddedDocument, []byte("a")), event...), 0)
		}
		return string(event)
	}
	d := newDecoder(t, bsonOptions)
	decodeOne(t, d, recordOf(nested(maxDepth)))
	for _, depth := range []int{maxDepth + 1, 5000} {
		if err := refusal(t, d, recordOf(nested(depth))); err.Reason != TooDeep || err.Path != strings.Repeat("a.", maxDepth-1)+"a" {
			t.Error(err)
		}
	}
}
