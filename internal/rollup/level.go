package rollup

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries"
	"waterwheel/internal/words"
)

// Level is a width of windows for which totals are kept.
type Level struct {
	// Name is 1m, 1h or 1d.
	Name string
	// Step is the width of a window. Windows begin at multiples of it since 1970, in UTC.
	Step time.Duration
	// Expire is how long rows are kept. Zero means forever.
	Expire time.Duration

	// span is the longest time whose rows one document holds: an hour, a day, or a calendar month.
	span time.Duration
}

const (
	hourMs       = int64(time.Hour / time.Millisecond)
	dayMs        = 24 * hourMs
	longestMonth = 31 * 24 * time.Hour
)

// Names of the levels.
const (
	Minute = "1m"
	Hour   = "1h"
	Day    = "1d"
)

// known are all levels, from the finest to the coarsest, without an expiry.
var known = Levels{
	{Name: Minute, Step: time.Minute, span: time.Hour},
	{Name: Hour, Step: time.Hour, span: 24 * time.Hour},
	{Name: Day, Step: 24 * time.Hour, span: longestMonth},
}

// LevelOf returns the level of a name, without an expiry. False means that no level has this name.
func LevelOf(name string) (Level, bool) { return known.Level(name) }

// Levels are the levels of a time series, from the finest to the coarsest. Empty means that it has no rollups.
type Levels []Level

// ParseLevels reads levels with their expiries, such as 1m:2160h,1h:17520h,1d. An empty text gives no levels. The error's text
// continues a sentence that begins with the setting's name.
func ParseLevels(text string) (Levels, error) {
	var levels Levels
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		part = strings.TrimSpace(part)
		name, expiry, hasExpiry := strings.Cut(part, ":")
		level, ok := LevelOf(name)
		if !ok {
			return nil, fmt.Errorf("has %q, which is not a level: give 1m, 1h or 1d, each with an expiry if its rows are to be deleted after a time, such as 1m:2160h,1h:17520h,1d", part)
		}
		if levels.Has(name) {
			return nil, fmt.Errorf("names the level %s twice: name it once", name)
		}
		if hasExpiry {
			var err error
			if level.Expire, err = parseExpiry(expiry); err != nil {
				return nil, fmt.Errorf("has %q: %w", part, err)
			}
			if level.Expire < level.span {
				return nil, fmt.Errorf("has %q: the expiry must be at least %s, the time that one document of this level covers", part, writeHours(level.span))
			}
		}
		levels = append(levels, level)
	}
	if levels.Has(Day) && !levels.Has(Hour) {
		return nil, fmt.Errorf("has 1d without 1h: days are computed from hours, so add 1h")
	}
	slices.SortFunc(levels, func(a, b Level) int { return cmp.Compare(a.Step, b.Step) })
	if err := levels.checkExpiries(); err != nil {
		return nil, err
	}
	return levels, nil
}

// maxExpiry bounds an expiry to the largest one that a TTL index accepts.
const maxExpiry = (1<<31-1)*time.Second - longestMonth

func parseExpiry(text string) (time.Duration, error) {
	expiry, ok := words.ParseSpan(text)
	switch {
	case !ok:
		return 0, fmt.Errorf("%q is not a duration: write it as 2160h or 90d", text)
	case expiry <= 0 || expiry%time.Second != 0:
		return 0, fmt.Errorf("the expiry %q must be a whole number of seconds above zero; leave the expiry out to keep rows for ever", text)
	case expiry > maxExpiry:
		return 0, fmt.Errorf("the expiry %q is too long: MongoDB allows at most %s; leave the expiry out to keep rows for ever", text, writeHours(maxExpiry))
	}
	return expiry, nil
}

func writeHours(d time.Duration) string { return fmt.Sprintf("%dh", d/time.Hour) }

// checkExpiries refuses a short expiry of hours if days are folded from them. The hours must be kept for two months. Otherwise
// the document of a month would lose the hours of its first days before it is whole.
func (ls Levels) checkExpiries() error {
	hour, _ := ls.Level(Hour)
	if least := 2 * longestMonth; ls.Has(Day) && hour.Expire != 0 && hour.Expire < least {
		return fmt.Errorf("has 1h with an expiry of %s: days are computed from hours, which must be kept for at least %s", writeHours(hour.Expire), writeHours(least))
	}
	return nil
}

// Has reports whether the levels include a level.
func (ls Levels) Has(name string) bool {
	_, ok := ls.Level(name)
	return ok
}

// Level returns the level of a name. False means that the levels do not include it.
func (ls Levels) Level(name string) (Level, bool) {
	for _, l := range ls {
		if l.Name == name {
			return l, true
		}
	}
	return Level{}, false
}

// String returns the levels in the form that ParseLevels reads.
func (ls Levels) String() string {
	var parts []string
	for _, l := range ls {
		part := l.Name
		if l.Expire > 0 {
			part += ":" + l.Expire.String()
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, ",")
}

// SeriesName returns the name of the time series that holds the rows of this level.
func (l Level) SeriesName(of string) string { return of + "_" + l.Name }

// Options returns the options of the time series of this level. Time and meta have the names that they have in the measurements,
// and a bucket spans a period.
func (l Level) Options(of timeseries.Options) timeseries.Options {
	span := int32(l.span / time.Second)
	return timeseries.Options{
		TimeField: of.TimeField, MetaField: of.MetaField, MaxSpanSeconds: span, RoundingSeconds: span,
		ExpireAfterSeconds: int64(l.Expire / time.Second),
	}
}

// Window returns the start of the window that holds a time. Both are in milliseconds since 1970.
func (l Level) Window(ms int64) int64 { return FloorTo(ms, l.Step.Milliseconds()) }

// WindowEnd returns the end of the window that holds a time, that is, the start of the next window.
func (l Level) WindowEnd(ms int64) int64 { return l.Window(ms) + l.Step.Milliseconds() }

// Period returns the start and the end of the document that holds a time's row. The end is not part of it.
func (l Level) Period(ms int64) (from, to int64) {
	if l.span == longestMonth {
		return Month(ms)
	}
	span := l.span.Milliseconds()
	from = FloorTo(ms, span)
	return from, from + span
}

// Month returns the start and the end of the calendar month in UTC that holds a time. The end is not part of the month.
func Month(ms int64) (from, to int64) {
	at := time.UnixMilli(FloorTo(ms, dayMs)).UTC()
	begin := time.Date(at.Year(), at.Month(), 1, 0, 0, 0, 0, time.UTC)
	return begin.UnixMilli(), begin.AddDate(0, 1, 0).UnixMilli()
}

// FloorTo returns the largest multiple of a unit that is not above v.
func FloorTo(v, unit int64) int64 {
	rest := v % unit
	if rest < 0 {
		rest += unit
	}
	return v - rest
}

// Fields are patterns of the fields that have totals. Each is a dotted path, in which * stands for any text. A pattern selects a field
// and everything below it, as names of fields in queries do. So wind and wind.* mean the same. Empty means all fields.
type Fields []string

// CheckPattern returns why a pattern can match no field. Nil means that it can match one. The error's text continues a sentence
// that begins with the pattern.
func CheckPattern(pattern string) error {
	switch names := strings.Split(pattern, "."); {
	case pattern == "":
		return fmt.Errorf("is empty: give names of fields, such as celsius, wind.speed or wind.*")
	case strings.ContainsRune(pattern, 0):
		return fmt.Errorf("contains a NUL character, which no field name can contain")
	case slices.Contains(names, ""):
		return fmt.Errorf("has an empty name: give names of fields, such as celsius, wind.speed or wind.*")
	}
	return nil
}

// Match reports whether the field at a dotted path has totals. Then everything below the field has totals, too.
func (fs Fields) Match(path string) bool {
	return len(fs) == 0 || slices.ContainsFunc(fs, func(pattern string) bool {
		name := withoutBelow(pattern)
		return matches(name, path) || matches(name+below, path)
	})
}

// below ends a pattern that names an object by everything below it.
const below = ".*"

// withoutBelow returns a pattern of the same meaning that does not end with below.
func withoutBelow(pattern string) string { return strings.TrimSuffix(pattern, below) }

// Covers reports whether each field that has totals by the other patterns also has totals by these patterns. It compares the patterns
// one by one, so it may miss that several patterns cover another one together.
func (fs Fields) Covers(other Fields) bool {
	if len(other) == 0 {
		other = Fields{"*"}
	}
	// Match takes a star in the path as text, which only a star of a pattern matches.
	return !slices.ContainsFunc(other, func(pattern string) bool { return !fs.Match(withoutBelow(pattern)) })
}

// matches compares a text with a pattern. After each * it takes the first place where the next piece fits. This is enough,
// because a later * matches the rest.
func matches(pattern, text string) bool {
	pieces := strings.Split(pattern, "*")
	head, tail := pieces[0], pieces[len(pieces)-1]
	if len(pieces) == 1 {
		return pattern == text
	}
	if !strings.HasPrefix(text, head) || len(text) < len(head)+len(tail) || !strings.HasSuffix(text, tail) {
		return false
	}
	text = text[len(head) : len(text)-len(tail)]
	for _, piece := range pieces[1 : len(pieces)-1] {
		at := strings.Index(text, piece)
		if at < 0 {
			return false
		}
		text = text[at+len(piece):]
	}
	return true
}

// DefinitionID is the _id of the document of <name>.options that lists the rollups of a time series. The document is absent if
// the time series never had rollups.
const DefinitionID = "rollups"

// Definition is the document that lists the rollups of a time series.
type Definition struct {
	ID     string         `bson:"_id"`
	Levels []DefinedLevel `bson:"levels"`
}

// DefinedLevel is a level that a time series has.
type DefinedLevel struct {
	// Name is 1m, 1h or 1d.
	Name string `bson:"name"`
	// Count is the column with the count of measurements.
	Count string `bson:"count"`
	// Fields are the patterns of the fields that have totals. Empty means all fields.
	Fields []string `bson:"fields,omitempty"`
	// Since is the time from which the level is complete. Windows that begin before it may lack rows. Nil means that the level is
	// complete from its first measurement.
	Since *time.Time `bson:"since,omitempty"`
}

// Level returns the level without its expiry, which is in the options of the level's own time series.
func (d DefinedLevel) Level() (Level, bool) { return LevelOf(d.Name) }

// Rules returns how to make the rows of the level.
func (d DefinedLevel) Rules() *Rules { return &Rules{Count: d.Count, Fields: d.Fields} }

// Level returns a level of the definition. False means that the definition has no level of this name.
func (d Definition) Level(name string) (DefinedLevel, bool) {
	for _, l := range d.Levels {
		if l.Name == name {
			return l, true
		}
	}
	return DefinedLevel{}, false
}

// ReadDefinition reads the stored document. A nil document means a time series without rollups.
func ReadDefinition(document bson.Raw) (d Definition, err error) {
	if document == nil {
		return d, nil
	}
	if err := bson.Unmarshal(document, &d); err != nil {
		return d, fmt.Errorf("the document %q of the options collection is damaged: %w", DefinitionID, err)
	}
	for _, l := range d.Levels {
		if _, ok := l.Level(); !ok {
			return d, fmt.Errorf("the document %q names the level %q, which this version of waterwheel does not know: use a newer version", DefinitionID, l.Name)
		}
	}
	return d, nil
}

// FieldWatermarks is the field of a partition document that lists the watermarks of the partition.
const FieldWatermarks = "rollup"

// Watermark says how far the rollups of a partition are complete, for one topic id.
type Watermark struct {
	TopicID bson.Binary `bson:"topicId"`
	// Below is the first offset that may not be in rows yet. The rows include every shown measurement below it.
	Below int64 `bson:"below"`
	// At is MongoDB's time when Below was reached, minus the consumer's lag. The rows include the measurements that were sent
	// before At. Nil means that no pass has ended yet.
	At *time.Time `bson:"at,omitempty"`
}

// Topic returns the id of the topic.
func (w Watermark) Topic() (id [16]byte) {
	copy(id[:], w.TopicID.Data)
	return id
}

// NewWatermark returns the watermark of a partition without any rows.
func NewWatermark(topicID [16]byte, below int64) Watermark {
	return Watermark{TopicID: bson.Binary{Subtype: bson.TypeBinaryUUID, Data: topicID[:]}, Below: below}
}

// Watermarks reads the watermarks of a partition document. It leaves out damaged ones, whose rows are made again.
func Watermarks(partition bson.Raw) (list []Watermark) {
	array, ok := partition.Lookup(FieldWatermarks).ArrayOK()
	if !ok {
		return nil
	}
	values, _ := array.Values()
	for _, v := range values {
		var w Watermark
		if d, ok := v.DocumentOK(); ok && bson.Unmarshal(d, &w) == nil && len(w.TopicID.Data) == 16 {
			list = append(list, w)
		}
	}
	return list
}

// Lowered returns the watermarks after a claim of a partition. The topic's watermark is at most start, the offset from which the
// owner reads. Everything that the owner may store is then at or above the watermark.
func Lowered(list []Watermark, topicID [16]byte, start int64) []Watermark {
	lowered := make([]Watermark, 0, len(list)+1)
	found := false
	for _, w := range list {
		if w.Topic() == topicID {
			w.Below, found = min(w.Below, start), true
		}
		lowered = append(lowered, w)
	}
	if !found {
		lowered = append(lowered, NewWatermark(topicID, start))
	}
	return lowered
}
