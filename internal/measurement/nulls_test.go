package measurement

import (
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/record"
)

// TestNullsAreDropped covers each format that has null, in one pass and through the document.
func TestNullsAreDropped(t *testing.T) {
	o := plainOptions
	o.Nulls, o.MetaField, o.MetaFields = DropNulls, "", []string{"meta", "site"}
	for _, test := range []struct{ event, want string }{
		{`{"time":1700000000,"meta":1,"x":null,"y":2}`, `{"y": {"$numberInt":"2"}}`},
		{`{"time":1700000000,"meta":1,"x":{"a":null,"b":{"c":null}},"y":null}`, `{"x": {"b": {}}}`},
		{`{"time":1700000000,"meta":1,"x":[null,{"a":null,"b":1}]}`, `{"x": [null,{"b": {"$numberInt":"1"}}]}`},
		{`{"time":1700000000,"meta":null,"site":{"a":null},"x":null}`, `{}`},
		{`{"time":1700000000,"meta":1,"x.y":null,"x.z":1}`, `{"x": {"z": {"$numberInt":"1"}}}`},
	} {
		for _, format := range []Format{JSON, ExtJSON, BSON} {
			o.Format = format
			value := []byte(test.event)
			if format == BSON {
				value = inBSON(t, test.event)
			}
			quick, slow := newDecoder(t, o), newDecoder(t, o)
			slow.quick.off = true
			for range 2 {
				for _, d := range []*Decoder{quick, slow} {
					m := decodeOne(t, d, record.Record{Offset: 7, Timestamp: recordTime, Value: value})
					if got := document(t, m.Elements).String(); got != test.want {
						t.Errorf("%s in %s is %s, want %s", test.event, format, got, test.want)
					}
					if meta, is := m.Meta.DocumentOK(); !is || meta.Lookup("site").Type != 0 && meta.Lookup("site", "a").Type != bson.TypeNull {
						t.Errorf("%s in %s: meta is %v", test.event, format, m.Meta)
					}
				}
			}
		}
	}
	reserved := `{"time":1700000000,"meta":1,"x":null}`
	o = plainOptions
	o.Nulls, o.StoredMeta = DropNulls, "x"
	if m := decodeOne(t, newDecoder(t, o), recordOf(reserved)); len(m.Elements) > 0 {
		t.Errorf("%s is %v", reserved, document(t, m.Elements))
	}
}
