package rollup

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries"
	"waterwheel/internal/timeseries/rawbson"
)

// Fields of a nested document. There is one document for each series and month: {date, <meta>, days: [{date, <totals>, hours:
// [{date, <totals>, minutes: [{date, <totals>}]}]}]}.
const (
	FieldDate    = "date"
	FieldDays    = "days"
	FieldHours   = "hours"
	FieldMinutes = "minutes"
	// FieldCut is true in the document of a month whose days are separate documents.
	FieldCut = "cut"
)

// NestedLimit bounds a nested document, in bytes. MongoDB accepts 16 MB, and sending a document adds bytes to it.
const NestedLimit = 15 << 20

// ofDocument are the fields of a nested document that do not belong to the meta.
var ofDocument = []string{timeseries.FieldID, FieldDate, FieldDays, FieldRevision, FieldCut}

// ofNode are the fields of a day, an hour or a minute that are not totals.
var ofNode = []string{FieldDate, FieldHours, FieldMinutes}

// NestedForm says how to make nested documents.
type NestedForm struct {
	// Series is the name of the time series. MetaField is the name of the meta in its measurements.
	Series, MetaField string
	// Aggregations are the figures of each field. One figure is the field's value, and several are an object. Nil means the total
	// as it is stored.
	Aggregations []Aggregation
	// Rules are the rules of each level, by the level's name.
	Rules map[string]*Rules
	// Limit bounds a document in bytes. It is usually NestedLimit.
	Limit int
}

// NestedRows holds rows of one series by the names of their levels, in the order of time.
type NestedRows map[string][]Stored

// ID returns the _id of the document of a series and a month, or of a day if the month is cut. The _id begins with the seconds of
// that time.
func (f *NestedForm) ID(meta bson.RawValue, from int64, isDay bool) bson.ObjectID {
	key := append([]byte("nested\x00"+f.Series+"\x00"), byte(meta.Type))
	key = binary.BigEndian.AppendUint64(append(key, meta.Value...), uint64(from))
	if isDay {
		key = append(key, 1)
	}
	sum := sha256.Sum256(key)
	return timeseries.BucketIDOf(from, sum[:8])
}

// NestedDocument is a document without its days.
type NestedDocument struct {
	ID   bson.ObjectID
	Meta bson.RawValue
	// Date is the start of the month or the day, in milliseconds since 1970.
	Date int64
	// Revision counts the replacements. Cut means that the days are separate documents.
	Revision int64
	Cut      bool
}

// Encode makes the document with its days. If the meta is an object, its fields become fields of the document. But if one of them
// has a name that the document needs, the whole meta is kept under its own name.
func (f *NestedForm) Encode(d NestedDocument, days []bson.Raw) bson.Raw {
	dst := append(rawbson.AppendHeader([]byte{0, 0, 0, 0}, bson.TypeObjectID, timeseries.FieldID), d.ID[:]...)
	dst = rawbson.AppendDate(dst, FieldDate, d.Date)
	dst = f.appendMeta(dst, d.Meta)
	dst = rawbson.AppendInt64(dst, FieldRevision, d.Revision)
	if d.Cut {
		dst = append(rawbson.AppendHeader(dst, bson.TypeBoolean, FieldCut), 1)
	}
	return rawbson.EndDocument(appendNodes(dst, FieldDays, days), 0)
}

func (f *NestedForm) appendMeta(dst []byte, meta bson.RawValue) []byte {
	if meta.Type == 0 {
		return dst
	}
	if object, ok := meta.DocumentOK(); ok {
		taken := false
		for e := range rawbson.All(rawbson.Content(object)) {
			taken = taken || slices.Contains(ofDocument, string(e.Name))
		}
		if !taken {
			return append(dst, rawbson.Content(object)...)
		}
	}
	name := f.MetaField
	if slices.Contains(ofDocument, name) {
		name = timeseries.FieldMeta
	}
	return append(rawbson.AppendHeader(dst, meta.Type, name), meta.Value...)
}

func appendNodes(dst []byte, name string, nodes []bson.Raw) []byte {
	dst = rawbson.AppendHeader(dst, bson.TypeArray, name)
	start := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	for i, node := range nodes {
		dst = append(rawbson.AppendIndexHeader(dst, bson.TypeEmbeddedDocument, i), node...)
	}
	return rawbson.EndDocument(dst, start)
}

// Day makes the day that begins at a time. Nil means that it has no rows. The totals of a day, an hour and a minute come from the
// row of their own level. A day or an hour without such a row folds the rows below it. A day that exceeds the limit comes without
// its minutes, and if it still exceeds the limit, without its hours.
func (f *NestedForm) Day(from int64, rows NestedRows) bson.Raw {
	var day bson.Raw
	for depth := 2; depth >= 0; depth-- {
		if day = f.day(from, rows, depth); len(day) <= f.Limit {
			break
		}
	}
	return day
}

// part is a node under construction, with its totals and the nodes below it.
type part struct {
	row      *Row
	children []bson.Raw
}

func (f *NestedForm) day(from int64, rows NestedRows, depth int) bson.Raw {
	day := part{row: f.fold(Day, from, Within(rows[Day], from, from+dayMs))}
	var hours []*Row
	for hour := from; hour < from+dayMs; hour += hourMs {
		one := f.hour(hour, rows, depth > 1)
		if one.row == nil {
			continue
		}
		hours = append(hours, one.row)
		if depth > 0 {
			day.children = append(day.children, f.node(&one, FieldMinutes, depth > 1 && f.Rules[Minute] != nil))
		}
	}
	if day.row == nil && len(hours) > 0 {
		day.row = hours[0].rules.NewRow(from)
		for _, hour := range hours {
			day.row.Fold(hour.Document())
		}
	}
	if day.row == nil {
		return nil
	}
	return f.node(&day, FieldHours, depth > 0)
}

func (f *NestedForm) hour(from int64, rows NestedRows, minutes bool) (hour part) {
	hour.row = f.fold(Hour, from, Within(rows[Hour], from, from+hourMs))
	below := Within(rows[Minute], from, from+hourMs)
	if hour.row == nil {
		hour.row = f.fold(Minute, from, below)
	}
	for minutes && len(below) > 0 {
		n := 1
		for n < len(below) && below[n].Time == below[0].Time {
			n++
		}
		one := part{row: f.fold(Minute, below[0].Time, below[:n])}
		hour.children = append(hour.children, f.node(&one, "", false))
		below = below[n:]
	}
	return hour
}

// fold makes one row of several rows of a level. Nil means that there are none.
func (f *NestedForm) fold(level string, from int64, rows []Stored) *Row {
	rules := f.Rules[level]
	if len(rows) == 0 || rules == nil {
		return nil
	}
	return rules.Fold(from, rows)
}

// node encodes a day, an hour or a minute. name is the field of the nodes below it.
func (f *NestedForm) node(p *part, name string, nested bool) bson.Raw {
	dst := rawbson.AppendDate([]byte{0, 0, 0, 0}, FieldDate, p.row.Time)
	dst = p.row.appendFields(dst, f.Aggregations, ofNode)
	if nested {
		dst = appendNodes(dst, name, p.children)
	}
	return rawbson.EndDocument(dst, 0)
}
