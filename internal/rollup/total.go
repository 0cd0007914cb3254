package rollup

import (
	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries/rawbson"
)

// Names of the fields of a total.
const (
	FieldN     = "n"
	FieldSum   = "sum"
	FieldMin   = "min"
	FieldMax   = "max"
	FieldFirst = "first"
	FieldLast  = "last"
)

// total is what a window knows of one field: how many numbers it had, and which. The zero Total has none.
//
// A NaN is left out of all of it. A Decimal128 has no sum, and so has a total that holds one.
type Total struct {
	// N is the number of numbers.
	N int64
	// Min, Max, First and Last are numbers as they were stored. Of equal ones the first stays.
	Min, Max, First, Last Number

	sum sum
}

// Sum is the sum of the numbers, an int64 while that is exact and else a double; it is none where a Decimal128 was among them.
func (t *Total) Sum() Number {
	if t.N == 0 {
		return Number{}
	}
	return t.sum.number()
}

// mean is the sum divided by the count; false means that there is no sum.
func (t *Total) mean() (float64, bool) {
	sum, ok := t.Sum().float()
	if !ok {
		return 0, false
	}
	return sum / float64(t.N), true
}

// Add adds a value, of measurements in their order. A value that is not a number adds nothing.
func (t *Total) Add(v bson.RawValue) {
	if n, ok := numberOf(v); ok {
		t.add(&n)
	}
}

func (t *Total) add(n *Number) {
	t.include(n, n, n, n)
	t.sum.add(*n)
	t.N++
}

// fold adds what another total holds, of windows in their order.
func (t *Total) fold(o *Total) {
	if o.N == 0 {
		return
	}
	t.include(&o.Min, &o.Max, &o.First, &o.Last)
	t.sum.add(o.sum.number())
	t.N += o.N
}

func (t *Total) include(least, most, first, last *Number) {
	if t.N == 0 {
		t.Min, t.Max, t.First, t.Last = *least, *most, *first, *last
		return
	}
	if least.compare(&t.Min) < 0 {
		t.Min = *least
	}
	if most.compare(&t.Max) > 0 {
		t.Max = *most
	}
	t.Last = *last
}

// memberNames are the names of the numbers of a total, in the order in which they are stored.
var memberNames = [...]string{FieldN, FieldSum, FieldMin, FieldMax, FieldFirst, FieldLast}

// members are the numbers of a total, in the order of memberNames.
func (t *Total) members() [len(memberNames)]Number {
	return [...]Number{int64Number(t.N), t.Sum(), t.Min, t.Max, t.First, t.Last}
}

// appendElement appends the total as an element of a document.
func (t *Total) appendElement(dst []byte, name string) []byte {
	dst = rawbson.AppendHeader(dst, bson.TypeEmbeddedDocument, name)
	start := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	members := t.members()
	for i := range members {
		if n := &members[i]; !n.IsZero() {
			dst = append(rawbson.AppendHeader(dst, n.kind, memberNames[i]), n.content()...)
		}
	}
	return rawbson.EndDocument(dst, start)
}

// parseTotal reads a stored total. False means that the document is not a total, but an object that holds the totals of its fields:
// the member n of a total is a number, and that of an object is one more object.
func parseTotal(document bson.Raw) (t Total, ok bool) {
	if document.Validate() != nil {
		return t, false
	}
	t.sum.unknown = true // until there is one
	for e := range rawbson.All(rawbson.Content(document)) {
		n, isNumber := numberOf(bson.RawValue{Type: e.Kind, Value: e.Value})
		switch string(e.Name) {
		case FieldN:
			if e.Kind != bson.TypeInt64 && e.Kind != bson.TypeInt32 {
				return t, false
			}
			t.N = n.integer()
		case FieldSum:
			if !isNumber && e.Kind == bson.TypeDouble { // a NaN: of infinities of both signs
				n = doubleNumber(bitsOf(e.Value))
			}
			if n.kind != 0 {
				t.sum = sum{}
				t.sum.add(n)
			}
		case FieldMin:
			t.Min = n
		case FieldMax:
			t.Max = n
		case FieldFirst:
			t.First = n
		case FieldLast:
			t.Last = n
		}
	}
	return t, t.N > 0 && !t.Min.IsZero() && !t.Max.IsZero() && !t.First.IsZero() && !t.Last.IsZero()
}
