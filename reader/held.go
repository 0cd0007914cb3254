package reader

import (
	"bytes"
	"cmp"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/timeseries"
)

// held is a bucket in memory, with the place of the next measurement in it.
type held struct {
	plan     *plan
	unpacker *timeseries.Unpacker
	bucket   []byte
	source   timeseries.Source
	number   int // how many were held before: the order of what is equal otherwise

	current timeseries.Unpacked

	// Where the measurements are to come in another order than they are in, all are unpacked at once.
	sorted bool
	rows   []row
	arena  []byte
}

// row is a measurement of a bucket that was unpacked as a whole: its fields are in the arena.
type row struct {
	time       int64
	position   timeseries.Position
	start, end int
}

// open begins with a copy of a bucket.
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

// sort unpacks the bucket as a whole, and leaves the rows with the next one at the end.
func (h *held) sort() error {
	h.sorted = true
	for h.unpack() {
		start := len(h.arena)
		h.arena = append(h.arena, h.current.Fields...)
		h.rows = append(h.rows, row{h.current.Time, h.current.Position, start, len(h.arena)})
	}
	slices.SortStableFunc(h.rows, func(a, b row) int {
		return cmp.Or(cmp.Compare(a.time, b.time), a.position.Compare(b.position))
	})
	if !h.plan.newest {
		slices.Reverse(h.rows)
	}
	return h.unpacker.Err()
}

// next makes the next measurement the current one; false: there is none, or err is set.
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

// unpack reads the next measurement of the plan's time from the bucket.
func (h *held) unpack() bool {
	for h.unpacker.Next(&h.current) {
		if h.current.Time >= h.plan.first && h.current.Time <= h.plan.last {
			return true
		}
	}
	return false
}

// compare orders two buckets by their current measurements.
func (h *held) compare(o *held) int {
	return cmp.Or(
		cmp.Compare(h.current.Time, o.current.Time),
		bytes.Compare(h.source.TopicID[:], o.source.TopicID[:]), cmp.Compare(h.source.Partition, o.source.Partition),
		h.current.Position.Compare(o.current.Position), cmp.Compare(h.number, o.number))
}
