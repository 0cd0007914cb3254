package timeseries

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"math"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"
)

// maxCompareDepth is the depth down to which nested values are compared as values. It exceeds the depth that MongoDB stores
// (200).
const maxCompareDepth = 250

// CanonicalType is the rank of a BSON type in MongoDB's sort order. Types of the same rank, all numbers for example,
// compare by value and are compatible in a bucket's schema.
func CanonicalType(t bson.Type) int { return int(canonicalTypes[t]) }

// canonicalTypes holds the ranks by type byte. Undefined, and no value at all, have rank 0.
var canonicalTypes = [256]int8{
	bson.TypeMinKey: -1, bson.TypeNull: 5,
	bson.TypeDouble: 10, bson.TypeInt32: 10, bson.TypeInt64: 10, bson.TypeDecimal128: 10,
	bson.TypeString: 15, bson.TypeSymbol: 15,
	bson.TypeEmbeddedDocument: 20, bson.TypeArray: 25, bson.TypeBinary: 30, bson.TypeObjectID: 35,
	bson.TypeBoolean: 40, bson.TypeDateTime: 45, bson.TypeTimestamp: 47, bson.TypeRegex: 50,
	bson.TypeDBPointer: 55, bson.TypeJavaScript: 60, bson.TypeCodeWithScope: 65, bson.TypeMaxKey: 127,
}

// Compare orders two BSON values as MongoDB does without a collation: by canonical type, then by value. Numbers compare exactly
// across their types. NaN is below every number and equals itself. Field names count in objects, not in arrays. The result is -1,
// 0 or 1. A result of 0 does not mean that the bytes are equal. Compare allocates only to compare a double with a decimal.
// Malformed values have some order, too.
func Compare(a, b bson.RawValue) int {
	if a.Type == b.Type {
		return compareSame(a.Type, a.Value, b.Value, 0)
	}
	return compareValues(a, b, 0)
}

func compareValues(a, b bson.RawValue, depth int) int {
	if a.Type == b.Type {
		return compareSame(a.Type, a.Value, b.Value, depth)
	}
	rank := CanonicalType(a.Type)
	if c := cmp.Compare(rank, CanonicalType(b.Type)); c != 0 {
		return c
	}
	switch rank {
	case 10:
		return compareNumbers(a.Type, a.Value, b.Type, b.Value)
	case 15:
		return bytes.Compare(text(a.Value), text(b.Value))
	default: // undefined and no value
		return 0
	}
}

// compareSame compares the values of two elements of the same type.
func compareSame(t bson.Type, a, b []byte, depth int) int {
	switch t {
	case bson.TypeDouble:
		if len(a) == 8 && len(b) == 8 {
			// cmp.Compare orders NaN below everything and equal to itself, and -0 equal to 0, as MongoDB does.
			return cmp.Compare(math.Float64frombits(word(a)), math.Float64frombits(word(b)))
		}
	case bson.TypeInt64, bson.TypeDateTime:
		if len(a) == 8 && len(b) == 8 {
			return cmp.Compare(int64(word(a)), int64(word(b)))
		}
	case bson.TypeInt32:
		if len(a) == 4 && len(b) == 4 {
			return cmp.Compare(int32(binary.LittleEndian.Uint32(a)), int32(binary.LittleEndian.Uint32(b)))
		}
	case bson.TypeTimestamp:
		if len(a) == 8 && len(b) == 8 {
			return cmp.Compare(word(a), word(b))
		}
	case bson.TypeDecimal128:
		return readDecimal(a).compare(readDecimal(b))
	case bson.TypeString, bson.TypeSymbol, bson.TypeJavaScript:
		return bytes.Compare(text(a), text(b))
	case bson.TypeBinary, bson.TypeDBPointer:
		// The length counts first. A binary's subtype stands before its bytes.
		return cmp.Or(cmp.Compare(len(a), len(b)), bytes.Compare(a, b))
	case bson.TypeEmbeddedDocument:
		return compareDocuments(a, b, true, depth+1)
	case bson.TypeArray:
		return compareDocuments(a, b, false, depth+1)
	case bson.TypeCodeWithScope:
		return compareScoped(a, b, depth+1)
	}
	// ObjectID, boolean and regex (two C strings) sort by their bytes. Values of other types have no bytes.
	return bytes.Compare(a, b)
}

func word(b []byte) uint64 { return binary.LittleEndian.Uint64(b) }

// text returns the content of a BSON string without its length and its final NUL.
func text(b []byte) []byte {
	if len(b) < 5 {
		return nil
	}
	return b[4 : len(b)-1]
}

// compareDocuments compares two documents element by element: by type, by name if names is set, and by value. The document that
// ends first is less.
func compareDocuments(a, b []byte, names bool, depth int) int {
	if depth > maxCompareDepth {
		return bytes.Compare(a, b)
	}
	var x, y cursor
	x.open(a)
	y.open(b)
	for {
		moreX, moreY := x.next(), y.next()
		switch {
		case x.err != nil || y.err != nil:
			return bytes.Compare(a, b)
		case !moreX && !moreY:
			return 0
		case !moreX:
			return -1
		case !moreY:
			return 1
		}
		if c := x.compare(&y, names, depth); c != 0 {
			return c
		}
	}
}

func (c *cursor) compare(d *cursor, names bool, depth int) int {
	if r := cmp.Compare(CanonicalType(c.kind), CanonicalType(d.kind)); r != 0 {
		return r
	}
	if names {
		if r := bytes.Compare(c.key, d.key); r != 0 {
			return r
		}
	}
	return compareValues(c.value(), d.value(), depth)
}

// compareScoped compares two values of code with scope. The code is compared as a string, then the scope as an object.
func compareScoped(a, b []byte, depth int) int {
	codeA, scopeA, okA := bsoncore.ReadString(a[min(4, len(a)):])
	codeB, scopeB, okB := bsoncore.ReadString(b[min(4, len(b)):])
	if !okA || !okB {
		return bytes.Compare(a, b)
	}
	if c := cmp.Compare(codeA, codeB); c != 0 {
		return c
	}
	return compareDocuments(scopeA, scopeB, true, depth)
}
