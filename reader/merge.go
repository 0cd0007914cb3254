package reader

import (
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
