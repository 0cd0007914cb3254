package events

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// InAvro returns a reading as Avro, and the schema of its types. The schema is the same for readings of the same types and the
// same version.
func InAvro(r Reading, version int) (schema string, value []byte) {
	document := append(bson.D{{Key: "time", Value: bson.DateTime(r.Time)}, {Key: "meta", Value: r.Meta}}, r.Fields...)
	records := 0
	of, value := appendAvro(nil, document, &records)
	return fmt.Sprintf(`{"doc":"version %d",%s`, version, of[1:]), value
}

// appendAvro appends a value and returns its type. records is the number of records that have a name.
func appendAvro(out []byte, v any, records *int) (of string, _ []byte) {
	switch v := v.(type) {
	case nil:
		return `"null"`, out
	case bool:
		if v {
			return `"boolean"`, append(out, 1)
		}
		return `"boolean"`, append(out, 0)
	case int32:
		return `"int"`, binary.AppendVarint(out, int64(v))
	case int64:
		return `"long"`, binary.AppendVarint(out, v)
	case bson.DateTime:
		return `{"type":"long","logicalType":"timestamp-millis"}`, binary.AppendVarint(out, int64(v))
	case float64:
		return `"double"`, binary.LittleEndian.AppendUint64(out, math.Float64bits(v))
	case string:
		return `"string"`, append(binary.AppendVarint(out, int64(len(v))), v...)
	case bson.D:
		*records++
		number, fields := *records, make([]string, len(v))
		for i, e := range v {
			of, out = appendAvro(out, e.Value, records)
			fields[i] = fmt.Sprintf(`{"name":%q,"type":%s}`, e.Key, of)
		}
		return fmt.Sprintf(`{"type":"record","name":"Record%d","fields":[%s]}`, number, strings.Join(fields, ",")), out
	case bson.A:
		return appendAvroArray(out, v, records)
	default:
		panic("events: a value of a type that is not made here")
	}
}

// appendAvroArray appends an array and returns its type. Its items are a union of their types.
func appendAvroArray(out []byte, items bson.A, records *int) (of string, _ []byte) {
	if len(items) == 0 {
		return `{"type":"array","items":"null"}`, append(out, 0)
	}
	var types []string
	out = binary.AppendVarint(out, int64(len(items)))
	for _, item := range items {
		inner, value := appendAvro(nil, item, records)
		branch := slices.Index(types, inner)
		if branch < 0 {
			branch, types = len(types), append(types, inner)
		}
		out = append(binary.AppendVarint(out, int64(branch)), value...)
	}
	return `{"type":"array","items":[` + strings.Join(types, ",") + `]}`, append(out, 0)
}
