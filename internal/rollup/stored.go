package rollup

import (
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

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
