package rollup

import (
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// DefinitionID is the _id of the document of <name>.options that lists the rollups of a time series. It is absent where there never
// were any.
const DefinitionID = "rollups"

// Definition is that document.
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
	// Since says from when on the level is whole: windows that begin before it may lack rows. Nil means that it is whole from the
	// beginning.
	Since *time.Time `bson:"since,omitempty"`
}

// Level is the level itself, without an expiry, which stands in the options of its own time series.
func (d DefinedLevel) Level() (Level, bool) { return LevelOf(d.Name) }

// Rules say how the rows of the level are made.
func (d DefinedLevel) Rules() *Rules { return &Rules{Count: d.Count, Fields: d.Fields} }

// Level returns a level of the definition; false means that there is none of this name.
func (d Definition) Level(name string) (DefinedLevel, bool) {
	for _, l := range d.Levels {
		if l.Name == name {
			return l, true
		}
	}
	return DefinedLevel{}, false
}

// ReadDefinition reads the stored document; nil is a time series without rollups.
func ReadDefinition(document bson.Raw) (d Definition, err error) {
	if document == nil {
		return d, nil
	}
	if err := bson.Unmarshal(document, &d); err != nil {
		return d, fmt.Errorf("the document %q is damaged: %w", DefinitionID, err)
	}
	for _, l := range d.Levels {
		if _, ok := l.Level(); !ok {
			return d, fmt.Errorf("the document %q names the level %q, which this version does not know", DefinitionID, l.Name)
		}
	}
	return d, nil
}

// FieldWatermarks is the field of a partition document that lists the watermarks of the partition.
const FieldWatermarks = "rollup"

// Watermark says how far the rollups of a partition are, under one topic id.
type Watermark struct {
	TopicID bson.Binary `bson:"topicId"`
	// Below is the first offset that may not be in rows yet: every measurement below it that is shown is in its rows.
	Below int64 `bson:"below"`
	// At is MongoDB's time when that was so, less what the consumer was behind the end of the log: measurements that were sent before
	// it are in rows. Nil means that no pass has ended yet.
	At *time.Time `bson:"at,omitempty"`
}

// Topic is the id of the topic.
func (w Watermark) Topic() (id [16]byte) {
	copy(id[:], w.TopicID.Data)
	return id
}

// NewWatermark returns the watermark of a partition of which nothing is in rows yet.
func NewWatermark(topicID [16]byte, below int64) Watermark {
	return Watermark{TopicID: bson.Binary{Subtype: bson.TypeBinaryUUID, Data: topicID[:]}, Below: below}
}

// Watermarks reads those of a partition document. What is damaged is left out: its rows are made again.
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

// Lowered are the watermarks after a claim of a partition: that of its topic is not above the offset from which the owner reads. All of
// what the owner may store is then at or above it.
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
