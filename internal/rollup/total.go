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

// Total is what a window knows of one field, that is, the number of its numbers and some of them. The zero Total has no numbers.
//
// A Total ignores NaN. A Decimal128 has no sum, so neither has a Total that includes one.
type Total struct {
	// N is the number of numbers.
	N int64
	// Min, Max, First and Last are numbers as they were stored. Min and Max keep the first of equal numbers.
	Min, Max, First, Last Number

	sum sum
}

// Sum returns the sum of the numbers. It is an int64 as long as that is exact, and else a double. There is no sum if a Decimal128
// was added.
func (t *Total) Sum() Number {
	if t.N == 0 {
		return Number{}
	}
	return t.sum.number()
}

// mean returns the sum divided by the count. False means that there is no sum.
func (t *Total) mean() (float64, bool) {
	sum, ok := t.Sum().float()
	if !ok {
		return 0, false
	}
	return sum / float64(t.N), true
}

// Add adds a value. Values must come in the order of their measurements. A value that is not a number adds nothing.
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

// fold adds the content of another total. Totals must come in the order of their windows.
func (t *Total) fold(o *Total) {
	if o.N == 0 {
		return
	}
	t.include(&o.Min, &o.Max, &o.First, &o.Last)
	t.sum.fold(&o.sum)
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

// memberNames are the names of a total's numbers, in the order in which they are stored.
var memberNames = [...]string{FieldN, FieldSum, FieldMin, FieldMax, FieldFirst, FieldLast}

// members returns the numbers of a total, in the order of memberNames.
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

// parseTotal reads a stored total. False means that the document is an object with the totals of its fields. The two differ in
// the member n, which is a number in a total and an object in such an object.
func parseTotal(document bson.Raw) (t Total, ok bool) {
	if len(document) < rawbson.Empty {
		return t, false
	}
	t.sum.unknown = true // until a sum is read
	for rest := rawbson.Content(document); len(rest) > 0; {
		var e rawbson.Element
		if e, rest, ok = rawbson.Read(rest); !ok {
			return t, false
		}
		n, isNumber := numberOf(bson.RawValue{Type: e.Kind, Value: e.Value})
		switch string(e.Name) {
		case FieldN:
			if e.Kind != bson.TypeInt64 && e.Kind != bson.TypeInt32 {
				return t, false
			}
			t.N = n.integer()
		case FieldSum:
			if !isNumber && e.Kind == bson.TypeDouble { // a NaN, the sum of infinities of both signs
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
