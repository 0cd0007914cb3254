package reader

import (
	"cmp"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries"
)

// merge merges the measurements of several buckets in the order of time. It is a heap of buckets. The bucket at the top has the
// next measurement.
type merge struct {
	series *Series
	plan   *plan
	heap   []*held
	free   []*held
	number int
}

// add adds a bucket. It leaves out a bucket that cannot be read, and returns the reason.
func (m *merge) add(bucket bson.Raw) error {
	h := m.spare()
	m.number++
	err := h.open(m.plan, bucket, m.number)
	ok := false
	if err == nil {
		ok, err = h.next()
	}
	if !ok {
		m.release(h)
		return err
	}
	m.push(h)
	return nil
}

// take adds the measurements of a series from segments.
func (m *merge) take(h *held) {
	m.number++
	h.number = m.number
	if ok, _ := h.next(); ok { // The rows are unpacked, so nothing can fail.
		m.push(h)
	}
}

func (m *merge) push(h *held) {
	m.heap = append(m.heap, h)
	m.up(len(m.heap) - 1)
}

// clear removes everything from the heap.
func (m *merge) clear() {
	for _, h := range m.heap {
		m.release(h)
	}
	m.heap = m.heap[:0]
}

// release keeps a bucket's memory for another one. It drops measurements from segments.
func (m *merge) release(h *held) {
	if h.unpacker != nil {
		m.free = append(m.free, h)
	}
}

func (m *merge) spare() *held {
	if n := len(m.free); n > 0 {
		h := m.free[n-1]
		m.free = m.free[:n-1]
		return h
	}
	return &held{unpacker: timeseries.NewUnpacker(m.series.options)}
}

// advance moves past the measurement at the top. If the bucket cannot be read any further, advance removes it and returns the
// reason. The returned bucket is the one it moved in. It is valid until the next call of add.
func (m *merge) advance() (bucket bson.Raw, err error) {
	h := m.heap[0]
	ok, err := h.next()
	if !ok {
		last := len(m.heap) - 1
		m.heap[0], m.heap[last] = m.heap[last], nil
		m.heap = m.heap[:last]
		m.release(h)
	}
	if len(m.heap) > 1 {
		m.down()
	}
	return h.bucket, err
}

// certain reports whether the measurement at the top comes before all measurements of buckets that begin at begins or later. If
// the newest come first, it considers buckets that begin at begins or earlier.
func (m *merge) certain(begins int64) bool {
	if len(m.heap) == 0 {
		return false
	}
	if m.plan.newest {
		return m.heap[0].current.Time >= saturate(begins, m.plan.span)
	}
	return m.heap[0].current.Time < begins
}

func (m *merge) before(i, j int) bool {
	c := m.heap[i].compare(m.heap[j])
	if m.plan.newest {
		return c > 0
	}
	return c < 0
}

func (m *merge) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !m.before(i, parent) {
			return
		}
		m.heap[i], m.heap[parent] = m.heap[parent], m.heap[i]
		i = parent
	}
}

func (m *merge) down() {
	for i := 0; ; {
		child := 2*i + 1
		if child >= len(m.heap) {
			return
		}
		if right := child + 1; right < len(m.heap) && m.before(right, child) {
			child = right
		}
		if !m.before(child, i) {
			return
		}
		m.heap[i], m.heap[child] = m.heap[child], m.heap[i]
		i = child
	}
}

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
	if c := cmp.Compare(h.current.Time, o.current.Time); c != 0 { // nearly always
		return c
	}
	return cmp.Or(h.source.Compare(o.source), h.current.Position.Compare(o.current.Position), cmp.Compare(h.number, o.number))
}
