package check

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/e2e/events"
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
	rows      []row    // by measurement
	faults    []string // contradictions found so far
}

// row holds the fields of one measurement.
type row map[string]bson.RawValue

// wrong adds a fault.
func (b *bucket) wrong(format string, args ...any) {
	b.faults = append(b.faults, fmt.Sprintf(format, args...))
}

// eachPlace calls do with the place of each measurement, in the order of the columns' indexes.
func (b *bucket) eachPlace(do func(Place)) {
	for _, p := range b.positions {
		do(Place{b.Control.Source.Partition, p})
	}
}

// decodeBucket decodes a stored document.
func decodeBucket(raw bson.Raw) (*bucket, error) {
	b := &bucket{}
	if err := bson.Unmarshal(raw, b); err != nil {
		return b, fmt.Errorf("decoding a bucket: %w", err)
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
	b.rows = make([]row, max(0, min(int(b.Control.Count), len(b.Data)))) // a measurement has more than one byte
	names := map[string]bool{}
	for _, column := range columns {
		if names[column.Key()] {
			return b, fmt.Errorf("data.%s is there twice", column.Key())
		}
		names[column.Key()] = true
		if err := b.readColumn(column); err != nil {
			return b, err
		}
	}
	return b, nil
}

// readColumn reads the values of one column. Their indexes must ascend and stay below the count.
func (b *bucket) readColumn(column bson.RawElement) error {
	name := column.Key()
	document, ok := column.Value().DocumentOK()
	if !ok {
		return fmt.Errorf("data.%s is not a document", name)
	}
	elements, err := document.Elements()
	if err != nil {
		return fmt.Errorf("reading data.%s: %w", name, err)
	}
	last := -1
	for _, e := range elements {
		index, err := strconv.Atoi(e.Key())
		if err != nil || index <= last || index >= len(b.rows) || strconv.Itoa(index) != e.Key() {
			return fmt.Errorf("data.%s has index %q after %d, of %d measurements", name, e.Key(), last, b.Control.Count)
		}
		last = index
		if b.rows[index] == nil {
			b.rows[index] = row{}
		}
		b.rows[index][name] = e.Value()
	}
	return nil
}

// checkControl looks for contradictions within control. It does not compare the bucket with the expected measurements.
func (b *bucket) checkControl(t Topic) {
	source := b.Control.Source
	b.checkCompaction()
	if b.Control.Version != 1 {
		b.wrong("control.version is %d", b.Control.Version)
	}
	if source.Topic != t.Name || source.TopicID.Subtype != bson.TypeBinaryUUID || !slices.Equal(source.TopicID.Data, t.ID[:]) {
		b.wrong("control.source is %s %x, want %s %x", source.Topic, source.TopicID.Data, t.Name, t.ID)
	}
	if source.Partition < 0 || source.Partition >= t.Partitions {
		b.wrong("control.source.partition is %d", source.Partition)
	}
	if len(b.positions) != int(b.Control.Count) || b.Control.Count < 1 {
		b.wrong("control.count is %d, with %d positions", b.Control.Count, len(b.positions))
		return
	}
	if b.Control.Count > maxCount {
		b.wrong("%d measurements are more than a bucket may have", b.Control.Count)
	}
	if b.Control.Size <= 0 {
		b.wrong("control.size is %d", b.Control.Size)
	}
	first, last := b.positions[0].Offset, b.positions[0].Offset
	for _, p := range b.positions {
		first, last = min(first, p.Offset), max(last, p.Offset)
	}
	if source.First != first || source.Last != last {
		b.wrong("control.source.first and .last are %d and %d, want %d and %d", source.First, source.Last, first, last)
	}
}

// segment holds the fields that only a segment has.
type segment struct {
	Owner        string         `bson:"owner"`
	VisibleUntil *bson.DateTime `bson:"visibleUntil"`
	Compaction   *bson.Binary   `bson:"compaction"`
}

// compacted holds the fields of a bucket that a compaction made of segments.
type compacted struct {
	VisibleFrom bson.DateTime `bson:"visibleFrom"`
	ID          bson.Binary   `bson:"id"`
}

// shown reports whether a reader sees the document at the time now, in milliseconds since 1970.
func (b *bucket) shown(now int64) bool {
	switch s := b.Control.Segment; {
	case s != nil:
		return s.VisibleUntil == nil || int64(*s.VisibleUntil) > now
	case b.Control.Compacted != nil:
		return int64(b.Control.Compacted.VisibleFrom) <= now
	}
	return true
}

// checkCompaction looks for faults in a document's fields about segments and compactions.
func (b *bucket) checkCompaction() {
	uuid := func(id bson.Binary) bool { return id.Subtype == bson.TypeBinaryUUID && len(id.Data) == 16 }
	s, made := b.Control.Segment, b.Control.Compacted
	if (s != nil || made != nil) && !b.Control.Closed {
		b.wrong("it is open, and a segment or was made of segments")
	}
	switch {
	case s != nil && made != nil:
		b.wrong("it is a segment, and was made of segments")
	case s != nil && s.Owner == "":
		b.wrong("it is a segment without control.segment.owner")
	case s != nil && s.VisibleUntil != nil && s.Compaction == nil:
		b.wrong("control.segment.visibleUntil is %v, and .compaction is absent", *s.VisibleUntil)
	case s != nil && s.Compaction != nil && !uuid(*s.Compaction):
		b.wrong("control.segment.compaction is %v", *s.Compaction)
	case made != nil && (made.VisibleFrom == 0 || !uuid(made.ID)):
		b.wrong("control.compaction is %v", *made)
	}
	if s != nil {
		subtype, data, _ := b.Meta.BinaryOK()
		if want := "segment" + string([]byte{b.ID[10] & 0x0f, b.ID[11]}); subtype != bson.TypeBinaryGeneric || string(data) != want {
			b.wrong("it is a segment of the meta %s", b.Meta)
		}
	}
}

// opens returns the expected start time of a document. For a bucket it is the time of the first measurement, rounded down. A
// segment may start at any rounded time up to its earliest measurement, so opens returns the stored time.
func (b *bucket) opens(readings []*events.Reading) int64 {
	step := rounding.Milliseconds()
	if b.Control.Segment != nil {
		for _, e := range b.Control.Min {
			if at, ok := e.Value.(bson.DateTime); ok && e.Key == timeField && int64(at)%step == 0 {
				return int64(at)
			}
		}
	}
	return readings[0].Time - readings[0].Time%step
}

// Position is the place of a measurement in its partition. Part is the index within a record that is an array, and 0 otherwise.
type Position struct {
	Offset int64
	Part   int
}

// decodePositions reads one element of control.source.offsets. Each measurement is an unsigned varint, which holds zigzag(offset
// - previous offset) shifted left by one. If the low bit is set, the part follows as another varint.
func decodePositions(b []byte) ([]Position, error) {
	var positions []Position
	offset := int64(0)
	for at := 0; at < len(b); {
		v, n := binary.Uvarint(b[at:])
		if n <= 0 {
			return nil, fmt.Errorf("a broken varint at byte %d of %x", at, b)
		}
		at += n
		zigzag := v >> 1
		offset += int64(zigzag>>1) ^ -int64(zigzag&1)
		position := Position{Offset: offset}
		if v&1 == 1 {
			part, n := binary.Uvarint(b[at:])
			if n <= 0 || part >= 1<<20 {
				return nil, fmt.Errorf("a broken part at byte %d of %x", at, b)
			}
			at += n
			position.Part = int(part)
		}
		if offset < 0 {
			return nil, fmt.Errorf("offset %d in %x", offset, b)
		}
		positions = append(positions, position)
	}
	return positions, nil
}
