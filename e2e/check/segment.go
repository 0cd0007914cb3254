package check

import (
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/e2e/events"
)

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

// compactionFaults returns the faults in a document's fields about segments and compactions.
func (b *bucket) compactionFaults() []string {
	var faults []string
	wrong := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	uuid := func(id bson.Binary) bool { return id.Subtype == bson.TypeBinaryUUID && len(id.Data) == 16 }
	s, made := b.Control.Segment, b.Control.Compacted
	if (s != nil || made != nil) && !b.Control.Closed {
		wrong("it is open, and a segment or was made of segments")
	}
	switch {
	case s != nil && made != nil:
		wrong("it is a segment, and was made of segments")
	case s != nil && s.Owner == "":
		wrong("it is a segment without control.segment.owner")
	case s != nil && s.VisibleUntil != nil && s.Compaction == nil:
		wrong("control.segment.visibleUntil is %v, and .compaction is absent", *s.VisibleUntil)
	case s != nil && s.Compaction != nil && !uuid(*s.Compaction):
		wrong("control.segment.compaction is %v", *s.Compaction)
	case made != nil && (made.VisibleFrom == 0 || !uuid(made.ID)):
		wrong("control.compaction is %v", *made)
	}
	if s != nil {
		subtype, data, _ := b.Meta.BinaryOK()
		if want := "segment" + string([]byte{b.ID[10] & 0x0f, b.ID[11]}); subtype != bson.TypeBinaryGeneric || string(data) != want {
			wrong("it is a segment of the meta %s", b.Meta)
		}
	}
	return faults
}

// metaFaults compares the stored meta of each measurement with the expected one.
func (b *bucket) metaFaults(rows []map[string]bson.RawValue, readings []*events.Reading) []string {
	var faults []string
	wrong := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	for i, r := range readings {
		stored := b.Meta
		if b.Control.Segment != nil {
			stored = rows[i][metaField]
			delete(rows[i], metaField)
		}
		if !sameValue(unedited(stored), normalised(r.Meta)) {
			wrong("measurement %d is of series %v, stored as %s", i, r.Meta, stored)
		}
	}
	return faults
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
