package rollup

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries/rawbson"
	"waterwheel/internal/words"
)

// Aggregation is one figure of a total.
type Aggregation string

// The aggregations.
const (
	Mean  Aggregation = "mean"
	Max   Aggregation = "max"
	Min   Aggregation = "min"
	Sum   Aggregation = "sum"
	Count Aggregation = "count"
	First Aggregation = "first"
	Last  Aggregation = "last"
)

// aggregations are the names of all aggregations.
var aggregations = []string{string(Mean), string(Max), string(Min), string(Sum), string(Count), string(First), string(Last)}

// Check returns why a text is not an aggregation. Nil means that it is one. The error's text continues a sentence that begins
// with the setting's name.
func (a Aggregation) Check() error {
	if slices.Contains(aggregations, string(a)) {
		return nil
	}
	return fmt.Errorf("has %q, which is not an aggregation: give one or more of %s%s", string(a), strings.Join(aggregations, ", "), words.DidYouMean(string(a), aggregations))
}

// ParseAggregations reads names that are separated by commas. The error's text continues a sentence that begins with the
// setting's name.
func ParseAggregations(text string) (list []Aggregation, err error) {
	for name := range strings.SplitSeq(text, ",") {
		a := Aggregation(strings.TrimSpace(name))
		if err := a.Check(); err != nil {
			return nil, err
		}
		if slices.Contains(list, a) {
			return nil, fmt.Errorf("names %s twice: name it once", a)
		}
		list = append(list, a)
	}
	return list, nil
}

// AppendAggregations appends a document of the fields. Each is an object with some figures of its total: {celsius: {mean: 21.4,
// max: 24}}. With Count, the document begins with the count of measurements, under the name of its column.
func (w *Row) AppendAggregations(dst []byte, list []Aggregation) []byte {
	start := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	if slices.Contains(list, Count) {
		dst = w.appendCount(dst)
	}
	dst = w.root.appendMembers(dst, appendFigures(list))
	return rawbson.EndDocument(dst, start)
}

// appendFields appends the count and the fields as elements, without a document around them. It leaves out the names in except.
// The list decides the form of a field. Without aggregations it is the total as it is stored. With one aggregation it is that
// figure, and with several an object of them.
func (w *Row) appendFields(dst []byte, list []Aggregation, except []string) []byte {
	if !slices.Contains(except, w.rules.CountField()) {
		dst = w.appendCount(dst)
	}
	total := appendTotal
	switch {
	case len(list) == 1:
		total = func(dst []byte, name string, t *Total) []byte { return t.appendAggregation(dst, name, list[0]) }
	case len(list) > 1:
		total = appendFigures(list)
	}
	kept := node{members: slices.DeleteFunc(slices.Clone(w.root.members), func(m *node) bool { return slices.Contains(except, m.name) })}
	return kept.appendMembers(dst, total)
}

// appendTotal appends a total as it is stored.
func appendTotal(dst []byte, name string, t *Total) []byte { return t.appendElement(dst, name) }

func (w *Row) appendCount(dst []byte) []byte {
	dst = rawbson.AppendHeader(dst, bson.TypeInt64, w.rules.CountField())
	return binary.LittleEndian.AppendUint64(dst, uint64(w.Count))
}

// appendFigures returns a function that appends some figures of a total as an object.
func appendFigures(list []Aggregation) func(dst []byte, name string, t *Total) []byte {
	return func(dst []byte, name string, t *Total) []byte {
		dst = rawbson.AppendHeader(dst, bson.TypeEmbeddedDocument, name)
		start := len(dst)
		dst = append(dst, 0, 0, 0, 0)
		for _, a := range list {
			dst = t.appendAggregation(dst, string(a), a)
		}
		return rawbson.EndDocument(dst, start)
	}
}

// appendAggregation appends one figure as an element of a document. It appends nothing if the figure is unknown. A total that
// holds a Decimal128 has neither sum nor mean.
func (t *Total) appendAggregation(dst []byte, name string, a Aggregation) []byte {
	var n Number
	switch a {
	case Mean:
		mean, ok := t.mean()
		if !ok {
			return dst
		}
		dst = rawbson.AppendHeader(dst, bson.TypeDouble, name)
		return binary.LittleEndian.AppendUint64(dst, math.Float64bits(mean))
	case Max:
		n = t.Max
	case Min:
		n = t.Min
	case Sum:
		n = t.Sum()
	case Count:
		n = int64Number(t.N)
	case First:
		n = t.First
	case Last:
		n = t.Last
	}
	if n.IsZero() {
		return dst
	}
	return append(rawbson.AppendHeader(dst, n.kind, name), n.content()...)
}
