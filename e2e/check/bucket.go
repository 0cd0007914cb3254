package check

import (
	"fmt"
	"slices"
	"strconv"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// bucket is a decoded bucket or segment. None of its fields has been checked yet.
type bucket struct {
	ID      bson.ObjectID `bson:"_id"`
	Control struct {
		Version int32  `bson:"version"`
		Min     bson.D `bson:"min"`
		Max     bson.D `bson:"max"`
		Count   int32  `bson:"count"`
		Size    int32  `bson:"size"`
		Closed  bool   `bson:"closed"`
		Source  struct {
			Topic     string        `bson:"topic"`
			TopicID   bson.Binary   `bson:"topicId"`
			Partition int32         `bson:"partition"`
			First     int64         `bson:"first"`
			Last      int64         `bson:"last"`
			Offsets   []bson.Binary `bson:"offsets"`
		} `bson:"source"`
		Segment   *segment   `bson:"segment"`    // Nil means that the document is no segment.
		Compacted *compacted `bson:"compaction"` // Nil means that no compaction made the document.
	} `bson:"control"`
	Meta bson.RawValue `bson:"meta"`
	Data bson.Raw      `bson:"data"`

	positions []Position
	columns   map[string][]cell
}

// cell is one value of a column with its index.
type cell struct {
	index int
	value bson.RawValue
}

// decodeBucket decodes a stored document.
func decodeBucket(raw bson.Raw) (*bucket, error) {
	b := &bucket{columns: map[string][]cell{}}
	if err := bson.Unmarshal(raw, b); err != nil {
		return nil, fmt.Errorf("decoding a bucket: %w", err)
	}
	for _, element := range b.Control.Source.Offsets {
		positions, err := decodePositions(element.Data)
		if err != nil {
			return b, fmt.Errorf("decoding control.source.offsets: %w", err)
		}
		b.positions = append(b.positions, positions...)
	}
	columns, err := b.Data.Elements()
	if err != nil {
		return b, fmt.Errorf("reading data: %w", err)
	}
	for _, column := range columns {
		if err := b.readColumn(column); err != nil {
			return b, err
		}
	}
	return b, nil
}

// readColumn reads the cells of one column. Their indexes must ascend and stay below the count.
func (b *bucket) readColumn(column bson.RawElement) error {
	document, ok := column.Value().DocumentOK()
	if !ok {
		return fmt.Errorf("data.%s is not a document", column.Key())
	}
	elements, err := document.Elements()
	if err != nil {
		return fmt.Errorf("reading data.%s: %w", column.Key(), err)
	}
	cells := make([]cell, 0, len(elements))
	last := -1
	for _, e := range elements {
		index, err := strconv.Atoi(e.Key())
		if err != nil || index <= last || index >= int(b.Control.Count) || strconv.Itoa(index) != e.Key() {
			return fmt.Errorf("data.%s has index %q after %d, of %d measurements", column.Key(), e.Key(), last, b.Control.Count)
		}
		last = index
		cells = append(cells, cell{index, e.Value()})
	}
	if _, doubled := b.columns[column.Key()]; doubled {
		return fmt.Errorf("data.%s is there twice", column.Key())
	}
	b.columns[column.Key()] = cells
	return nil
}

// rows converts the columns to one map of fields per measurement.
func (b *bucket) rows() []map[string]bson.RawValue {
	rows := make([]map[string]bson.RawValue, b.Control.Count)
	for i := range rows {
		rows[i] = map[string]bson.RawValue{}
	}
	for name, cells := range b.columns {
		for _, c := range cells {
			rows[c.index][name] = c.value
		}
	}
	return rows
}

// faults returns the contradictions within a bucket. It does not compare the bucket with the expected measurements.
func (b *bucket) faults(t Topic) []string {
	var faults []string
	wrong := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	source := b.Control.Source
	faults = append(faults, b.compactionFaults()...)
	if b.Control.Version != 1 {
		wrong("control.version is %d", b.Control.Version)
	}
	if source.Topic != t.Name || source.TopicID.Subtype != bson.TypeBinaryUUID || !slices.Equal(source.TopicID.Data, t.ID[:]) {
		wrong("control.source is %s %x, want %s %x", source.Topic, source.TopicID.Data, t.Name, t.ID)
	}
	if source.Partition < 0 || source.Partition >= t.Partitions {
		wrong("control.source.partition is %d", source.Partition)
	}
	if len(b.positions) != int(b.Control.Count) || b.Control.Count < 1 {
		wrong("control.count is %d, with %d positions", b.Control.Count, len(b.positions))
		return faults
	}
	if b.Control.Count > maxCount {
		wrong("%d measurements are more than a bucket may have", b.Control.Count)
	}
	if b.Control.Size <= 0 {
		wrong("control.size is %d", b.Control.Size)
	}
	first, last := b.positions[0].Offset, b.positions[0].Offset
	for _, p := range b.positions {
		first, last = min(first, p.Offset), max(last, p.Offset)
	}
	if source.First != first || source.Last != last {
		wrong("control.source.first and .last are %d and %d, want %d and %d", source.First, source.Last, first, last)
	}
	return faults
}
