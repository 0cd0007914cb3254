package rollup

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries/rawbson"
	"waterwheel/internal/words"
)

// DefaultCount is the name of the column with the count of measurements, unless the setting names another.
const DefaultCount = "count"

// Rules say how to make rows.
type Rules struct {
	// Count names the column with the count of a window's measurements. A field of measurements with this name has no totals. Empty
	// means DefaultCount.
	Count string
	// Fields are the fields that have totals.
	Fields Fields
}

// CountField returns the name of the column with the count.
func (r *Rules) CountField() string {
	return cmp.Or(r.Count, DefaultCount)
}

// Row is one window of one series. It holds the measurements that were added to it, and the rows that were folded into it, but
// keeps no bytes of them. Fields yields the totals, and Document returns them in their stored form.
type Row struct {
	// Time is the start of the window, in milliseconds since 1970.
	Time int64
	// Count is the number of measurements.
	Count int64

	rules *Rules
	root  node
}

// node holds what a window knows of one path: the total of its numbers, and the members of its objects.
type node struct {
	name    string
	above   *node // nil in the root
	chosen  int8  // whether the field has totals. 0 means unknown, 1 yes, -1 no.
	total   Total
	members []*node
	last    int // index of the member that was found last
}

// Equal reports whether other rules make the same rows.
func (r *Rules) Equal(o *Rules) bool {
	return r.CountField() == o.CountField() && slices.Equal(r.Fields, o.Fields)
}

// NewRow returns the empty row of a window.
func (r *Rules) NewRow(time int64) *Row { return &Row{Time: time, rules: r} }

// Fold returns the row of a window, folded from rows of this window or of a finer level.
func (r *Rules) Fold(time int64, rows []Stored) *Row {
	all := r.NewRow(time)
	for _, row := range rows {
		all.Fold(row.Fields)
	}
	return all
}

// Reset empties the row for another window. The fields that it knows keep their places.
func (w *Row) Reset(time int64) {
	w.Time, w.Count = time, 0
	w.root.reset()
}

func (n *node) reset() {
	n.total = Total{}
	for _, m := range n.members {
		m.reset()
	}
}

// Add adds a measurement, given as its fields without time and meta. Measurements must come in the order of their times, and of
// their positions if the times are equal. Add ignores arrays. If a field is a number in some measurements and an object in
// others, the row keeps the totals of the object's fields.
func (w *Row) Add(fields bson.Raw) {
	w.Count++
	w.add(&w.root, fields, 0, false)
}

// Fold adds a row of a finer level, or another row of the same window. fields are the row's stored fields, with the count.
func (w *Row) Fold(fields bson.Raw) {
	n, _ := fields.Lookup(w.rules.CountField()).AsInt64OK()
	w.Count += n
	w.add(&w.root, fields, 0, true)
}

// Merge adds a row of a finer level that was made by the same rules. It does not round the sums, unlike Fold.
func (w *Row) Merge(finer *Row) {
	w.Count += finer.Count
	w.root.merge(&finer.root)
}

func (n *node) merge(o *node) {
	n.total.fold(&o.total)
	for _, m := range o.members {
		if m.total.N > 0 || m.hasMembers() {
			member(n, m.name).merge(m)
		}
	}
}

// maxDepth bounds the depth of nested objects. It is the depth that MongoDB stores.
const maxDepth = 200

// add adds the fields of an object to a node. stored means that the fields are totals.
func (w *Row) add(into *node, object bson.Raw, depth int, stored bool) {
	if len(object) < rawbson.Empty || depth > maxDepth {
		return
	}
	for rest := rawbson.Content(object); len(rest) > 0; {
		e, more, ok := rawbson.Read(rest)
		if !ok {
			return
		}
		rest = more
		if depth == 0 && string(e.Name) == w.rules.CountField() {
			continue
		}
		w.addElement(into, &e, depth, stored)
	}
}

func (w *Row) addElement(into *node, e *rawbson.Element, depth int, stored bool) {
	if stored && e.Kind == bson.TypeEmbeddedDocument {
		if total, ok := parseTotal(e.Value); ok {
			if m := member(into, e.Name); w.chooses(m) {
				m.total.fold(&total)
			}
			return
		}
	}
	switch {
	case e.Kind == bson.TypeEmbeddedDocument:
		w.add(member(into, e.Name), e.Value, depth+1, stored)
	case !stored:
		if n, ok := numberOf(bson.RawValue{Type: e.Kind, Value: e.Value}); ok {
			if m := member(into, e.Name); w.chooses(m) {
				m.total.add(&n)
			}
		}
	}
}

// chooses reports whether a field has totals. Its path is matched once for each row.
func (w *Row) chooses(m *node) bool {
	if m.chosen == 0 {
		m.chosen = -1
		if w.rules.Fields.Match(m.path()) {
			m.chosen = 1
		}
	}
	return m.chosen > 0
}

// path returns the dotted path of a field.
func (n *node) path() string {
	if n.above == nil || n.above.above == nil {
		return n.name
	}
	return n.above.path() + "." + n.name
}

// member returns the node of a name below another, and adds it if it is missing. Measurements of a series mostly have the same
// fields in the same order, so it first tries the place behind the last one.
func member[Name string | []byte](n *node, name Name) *node {
	at := n.last
	for range n.members {
		if at++; at >= len(n.members) {
			at = 0
		}
		if m := n.members[at]; m.name == string(name) {
			n.last = at
			return m
		}
	}
	m := &node{name: string(name), above: n}
	n.members = append(n.members, m)
	n.last = len(n.members) - 1
	return m
}

// hasMembers reports whether objects at this path had numbers.
func (n *node) hasMembers() bool {
	return slices.ContainsFunc(n.members, func(m *node) bool { return m.total.N > 0 || m.hasMembers() })
}

// Fields yields the totals by the dotted paths of their fields, in the order in which the fields first came.
func (w *Row) Fields() iter.Seq2[string, *Total] {
	return func(yield func(string, *Total) bool) { w.root.each("", yield) }
}

func (n *node) each(prefix string, yield func(string, *Total) bool) bool {
	for _, m := range n.members {
		more := true
		switch {
		case m.hasMembers():
			more = m.each(prefix+m.name+".", yield)
		case m.total.N > 0:
			more = yield(prefix+m.name, &m.total)
		}
		if !more {
			return false
		}
	}
	return true
}

// Document returns the row without its time. The count comes first, then each field with its total.
func (w *Row) Document() bson.Raw { return w.AppendDocument(nil) }

// AppendDocument appends the Document to dst.
func (w *Row) AppendDocument(dst []byte) []byte {
	start := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	dst = w.appendCount(dst)
	dst = w.root.appendMembers(dst, appendTotal)
	return rawbson.EndDocument(dst, start)
}

// appendMembers appends the fields below a node. It calls total to append each total as an element.
func (n *node) appendMembers(dst []byte, total func(dst []byte, name string, t *Total) []byte) []byte {
	for _, m := range n.members {
		switch {
		case m.hasMembers():
			dst = rawbson.AppendHeader(dst, bson.TypeEmbeddedDocument, m.name)
			start := len(dst)
			dst = rawbson.EndDocument(m.appendMembers(append(dst, 0, 0, 0, 0), total), start)
		case m.total.N > 0:
			dst = total(dst, m.name, &m.total)
		}
	}
	return dst
}

// Same reports whether two lists of rows of one window have the same count, and the same totals of the same fields.
func (r *Rules) Same(a, b []Stored) bool {
	if (len(a) == 0) != (len(b) == 0) {
		return false
	}
	one, other := r.Fold(0, a), r.Fold(0, b)
	totals := map[string]*Total{}
	for path, t := range one.Fields() {
		totals[path] = t
	}
	for path, t := range other.Fields() {
		have := totals[path]
		if have == nil || string(have.appendElement(nil, "")) != string(t.appendElement(nil, "")) {
			return false
		}
		delete(totals, path)
	}
	return len(totals) == 0 && one.Count == other.Count
}

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
	return rawbson.AppendInt64(dst, w.rules.CountField(), w.Count)
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
		if mean, ok := t.mean(); ok {
			n = doubleNumber(mean)
		}
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
	return n.appendElement(dst, name)
}
