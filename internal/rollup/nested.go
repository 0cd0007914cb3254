package rollup

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries"
	"waterwheel/internal/timeseries/rawbson"
)

// Fields of a nested document: one for each series and month, {date, <meta>, days: [{date, <totals>, hours: [{date, <totals>, minutes:
// [{date, <totals>}]}]}]}.
const (
	FieldDate    = "date"
	FieldDays    = "days"
	FieldHours   = "hours"
	FieldMinutes = "minutes"
	// FieldCut is true in the document of a month whose days are documents of their own.
	FieldCut = "cut"
)

// NestedLimit bounds a nested document, in bytes. MongoDB takes 16 MB, and a document becomes larger on its way there.
const NestedLimit = 15 << 20

// ofDocument are the fields of a nested document that are not the meta's.
var ofDocument = []string{timeseries.FieldID, FieldDate, FieldDays, FieldRevision, FieldCut}

// ofNode are the fields of a day, an hour or a minute that are not totals.
var ofNode = []string{FieldDate, FieldHours, FieldMinutes}

// NestedForm says how nested documents are made.
type NestedForm struct {
	// Series is the name of the time series, and MetaField what it calls the meta.
	Series, MetaField string
	// Aggregations are the figures of each field: of one its value, of several an object of them. Nil means the total as it is stored.
	Aggregations []Aggregation
	// Rules are those of each level, by its name.
	Rules map[string]*Rules
	// Limit bounds a document in bytes; the usual one is NestedLimit.
	Limit int
}

// NestedRows are rows of one series by the names of their levels, in the order of time.
type NestedRows map[string][]Stored

// ID is the _id of the document of a series and a month, or of a day if the month is cut. It begins with the seconds of that time.
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
	// Date is the beginning of the month, or of the day, in milliseconds since 1970.
	Date int64
	// Revision counts the replacements. Cut reports that the days are documents of their own.
	Revision int64
	Cut      bool
}

// Encode makes the document with its days. The fields of an object as meta are those of the document, unless one has a name that the
// document needs: the meta is then kept whole, under its own name.
func (f *NestedForm) Encode(d NestedDocument, days []bson.Raw) bson.Raw {
	dst := append([]byte{0, 0, 0, 0}, byte(bson.TypeObjectID))
	dst = append(append(dst, timeseries.FieldID+"\x00"...), d.ID[:]...)
	dst = rawbson.AppendDate(dst, FieldDate, d.Date)
	dst = f.appendMeta(dst, d.Meta)
	dst = rawbson.AppendHeader(dst, bson.TypeInt64, FieldRevision)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(d.Revision))
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

// Day makes the day that begins at a time. Nil means that it has no rows. Totals of a day, an hour and a minute are the row of their own
// level, and folds of what is below where that level has none. A day that is larger than a document may be comes without its minutes, and
// if that is not enough without its hours.
func (f *NestedForm) Day(from int64, rows NestedRows) bson.Raw {
	var day bson.Raw
	for depth := 2; depth >= 0; depth-- {
		if day = f.day(from, rows, depth); len(day) <= f.Limit {
			break
		}
	}
	return day
}

// part is a node while it is made: its totals, and what is below.
type part struct {
	row      *Row
	children []bson.Raw
}

func (f *NestedForm) day(from int64, rows NestedRows, depth int) bson.Raw {
	day := part{row: f.fold(Day, from, within(rows[Day], from, from+dayMs))}
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
	hour.row = f.fold(Hour, from, within(rows[Hour], from, from+hourMs))
	below := within(rows[Minute], from, from+hourMs)
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

// fold makes one row of rows of a level. Nil means that there is none.
func (f *NestedForm) fold(level string, from int64, rows []Stored) *Row {
	rules := f.Rules[level]
	if len(rows) == 0 || rules == nil {
		return nil
	}
	row := rules.NewRow(from)
	for _, one := range rows {
		row.Fold(one.Fields)
	}
	return row
}

// node encodes a day, an hour or a minute, with what is below it under a name.
func (f *NestedForm) node(p *part, name string, nested bool) bson.Raw {
	dst := rawbson.AppendDate([]byte{0, 0, 0, 0}, FieldDate, p.row.Time)
	dst = p.row.appendFields(dst, f.Aggregations, ofNode)
	if nested {
		dst = appendNodes(dst, name, p.children)
	}
	return rawbson.EndDocument(dst, 0)
}

// within are the rows, which are in order, whose windows begin in [from, to).
func within(rows []Stored, from, to int64) []Stored {
	at := func(ms int64) int {
		i, _ := slices.BinarySearchFunc(rows, ms, func(s Stored, ms int64) int {
			switch {
			case s.Time < ms:
				return -1
			case s.Time > ms:
				return 1
			}
			return 0
		})
		return i
	}
	return rows[at(from):at(to)]
}

// Month is the calendar month in UTC that holds a time, from its beginning to its end, which is not part of it.
func Month(ms int64) (from, to int64) { return Level{Step: 24 * time.Hour, period: monthly}.Period(ms) }
