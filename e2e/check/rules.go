package check

import (
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/e2e/events"
)

// These are the bucketing rules of the judged runs, which use the defaults.
const (
	timeField = "time"
	metaField = "meta"
	maxCount  = 1000
	span      = time.Hour
	rounding  = time.Minute
)

// compareWith compares a bucket with the readings it lists, in its order, and returns the faults.
func (b *bucket) compareWith(readings []*events.Reading) []string {
	var faults []string
	wrong := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }

	opened := b.opens(readings)
	if seconds := b.ID.Timestamp().Unix(); seconds != opened/1000 {
		wrong("_id has time %d s, want %d", seconds, opened/1000)
	}
	smallest, largest := extremes{sign: -1}, extremes{sign: 1}
	smallest.add(timeField, bson.DateTime(opened))
	rows := b.rows()
	faults = append(faults, b.metaFaults(rows, readings)...)
	for i, r := range readings {
		if r.Time < opened || r.Time >= opened+span.Milliseconds() {
			wrong("measurement %d has time %d, outside the bucket's hour from %d", i, r.Time, opened)
		}
		if fault := compareRow(rows[i], r); fault != "" {
			wrong("measurement %d: %s", i, fault)
		}
		largest.add(timeField, bson.DateTime(r.Time))
		if b.Control.Segment != nil {
			smallest.add(metaField, normalised(r.Meta))
			largest.add(metaField, normalised(r.Meta))
		}
		for _, f := range r.Fields {
			smallest.add(f.Key, f.Value)
			largest.add(f.Key, f.Value)
		}
	}
	if !same(b.Control.Min, smallest.values) {
		wrong("control.min is %v, want %v", b.Control.Min, smallest.values)
	}
	if !same(b.Control.Max, largest.values) {
		wrong("control.max is %v, want %v", b.Control.Max, largest.values)
	}
	return faults
}

// compareRow compares one stored measurement with its reading. The time and all fields must be equal, and no other field may
// exist.
func compareRow(row map[string]bson.RawValue, r *events.Reading) string {
	if !sameValue(row[timeField], bson.DateTime(r.Time)) {
		return fmt.Sprintf("time is %s, want %d", row[timeField], r.Time)
	}
	for _, f := range r.Fields {
		if stored, ok := row[f.Key]; !ok || !sameValue(stored, f.Value) {
			return fmt.Sprintf("%s is %s, want %v", f.Key, stored, f.Value)
		}
	}
	if len(row) != len(r.Fields)+1 {
		return fmt.Sprintf("it has %d fields, want %d", len(row), len(r.Fields)+1)
	}
	return ""
}
