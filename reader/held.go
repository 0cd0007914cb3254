package reader

import (
	"bytes"
	"cmp"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries"
)

// held is a bucket in memory, with a cursor to its next measurement. It may also hold the measurements of one series and
// partition from segments.
type held struct {
	plan     *plan
	unpacker *timeseries.Unpacker // Nil means that the measurements come from segments.
	bucket   []byte
	source   timeseries.Source
	number   int // a serial number, which orders otherwise equal ones

	current timeseries.Unpacked

	// Measurements from segments are unpacked at once, as are those of a bucket that stores them in another order than the plan
	// needs.
	sorted bool
	rows   []row
	arena  []byte
}

// row is an unpacked measurement. Its fields are in the arena.
type row struct {
	time       int64
	position   timeseries.Position
	start, end int
}

// compare orders rows of one partition.
func (r row) compare(o row) int {
	return cmp.Or(cmp.Compare(r.time, o.time), r.position.Compare(o.position))
}

// open copies a bucket and prepares to read it.
func (h *held) open(p *plan, bucket bson.Raw, number int) error {
	h.plan, h.number = p, number
	h.bucket = append(h.bucket[:0], bucket...)
	h.rows, h.arena, h.sorted = h.rows[:0], h.arena[:0], false
	if err := h.unpacker.Reset(h.bucket); err != nil {
		return err
	}
	h.source = h.unpacker.Source()
	if p.newest || !h.unpacker.InOrder() {
		return h.sort()
	}
	return nil
}

// sort unpacks the whole bucket, and orders the rows so that the next one is at the end.
func (h *held) sort() error {
	h.sorted = true
	for h.unpack() {
		h.keep(&h.current, h.current.Fields)
	}
	h.order()
	return h.unpacker.Err()
}

// keep adds a row to the end.
func (h *held) keep(m *timeseries.Unpacked, fields []byte) {
	start := len(h.arena)
	h.arena = append(h.arena, fields...)
	h.rows = append(h.rows, row{m.Time, m.Position, start, len(h.arena)})
}

// keepNewest replaces the row with a newer one. It does nothing if the existing row is at least as new.
func (h *held) keepNewest(m *timeseries.Unpacked, fields []byte) {
	if len(h.rows) > 0 && h.rows[0].compare(row{time: m.Time, position: m.Position}) >= 0 {
		return
	}
	h.rows, h.arena = h.rows[:0], h.arena[:0]
	h.keep(m, fields)
}

// order sorts the rows so that the next one is at the end.
func (h *held) order() {
	slices.SortStableFunc(h.rows, row.compare)
	if !h.plan.newest {
		slices.Reverse(h.rows)
	}
}

// next makes the next measurement the current one. False means that there is none, or that an error occurred.
func (h *held) next() (bool, error) {
	if !h.sorted {
		return h.unpack(), h.unpacker.Err()
	}
	if len(h.rows) == 0 {
		return false, nil
	}
	r := h.rows[len(h.rows)-1]
	h.rows = h.rows[:len(h.rows)-1]
	h.current.Time, h.current.Position, h.current.Fields = r.time, r.position, h.arena[r.start:r.end]
	return true, nil
}

// unpack reads the next measurement within the plan's times from the bucket.
func (h *held) unpack() bool {
	for h.unpacker.Next(&h.current) {
		if h.current.Time >= h.plan.first && h.current.Time <= h.plan.last {
			return true
		}
	}
	return false
}

// compare orders h and o by their current measurements.
func (h *held) compare(o *held) int {
	return cmp.Or(
		cmp.Compare(h.current.Time, o.current.Time),
		bytes.Compare(h.source.TopicID[:], o.source.TopicID[:]), cmp.Compare(h.source.Partition, o.source.Partition),
		h.current.Position.Compare(o.current.Position), cmp.Compare(h.number, o.number))
}
