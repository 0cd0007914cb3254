package timeseries

import (
	"bytes"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries/rawbson"
)

// maxNormalDepth bounds the nesting of a value that is brought into normal form. Deeper values stay as they are. No stored meta
// nests deeper.
const maxNormalDepth = 200

// NormalMeta returns a value in the form in which metas are stored. In this form the fields of all objects are sorted by the
// bytes of their names, at every depth. It does not change a value without objects, a sorted value, or a malformed value.
func NormalMeta(v bson.RawValue) bson.RawValue {
	if !rawbson.IsNested(v.Type) {
		return v
	}
	out, ok := appendNormal(make([]byte, 0, len(v.Value)), v.Type, v.Value, 0)
	if !ok {
		return v
	}
	return bson.RawValue{Type: v.Type, Value: out}
}

func appendNormal(dst []byte, kind bson.Type, value []byte, depth int) ([]byte, bool) {
	if !rawbson.IsNested(kind) || depth > maxNormalDepth {
		return append(dst, value...), true
	}
	if rawbson.DocumentSize(value) != len(value) {
		return dst, false
	}
	var elements []rawbson.Element
	for list := rawbson.Content(value); len(list) > 0; {
		e, rest, ok := rawbson.Read(list)
		if !ok {
			return dst, false
		}
		elements, list = append(elements, e), rest
	}
	if kind == bson.TypeEmbeddedDocument {
		slices.SortStableFunc(elements, func(a, b rawbson.Element) int { return bytes.Compare(a.Name, b.Name) })
	}
	start := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	for _, e := range elements {
		var ok bool
		if dst, ok = appendNormal(rawbson.AppendHeader(dst, e.Kind, e.Name), e.Kind, e.Value, depth+1); !ok {
			return dst, false
		}
	}
	return rawbson.EndDocument(dst, start), true
}
