package bucketer

import (
	"maps"
	"slices"
)

// expire archives the bucket that was not used for the longest time.
func (m *model) expire() {
	b := m.idle[0]
	m.idle = m.idle[1:]
	s := m.series[b.series]
	s.open, s.excluded = slices.DeleteFunc(slices.Clone(s.open), func(o *modelBucket) bool { return o == b }), nil
	b.action = archive
	m.end(b)
	if b.archived {
		m.stats["numBucketsArchivedDueToMemoryThreshold"]++
	} else {
		m.stats["numBucketsClosedDueToMemoryThreshold"]++
	}
}

// dropArchived forgets a quarter of the archived buckets and one more, beginning with those archived first.
func (m *model) dropArchived() {
	var known []*modelBucket
	for _, b := range m.buckets {
		if b.archived {
			known = append(known, b)
		}
	}
	slices.SortFunc(known, func(a, b *modelBucket) int { return a.since - b.since })
	for _, b := range known[:min(len(known), len(known)/4+1)] {
		b.archived = false
		m.stats["numBucketsClosedDueToMemoryThreshold"]++
	}
}

// clear forgets the buckets of some series, and the archive. It inserts their waiting readings again.
func (m *model) clear(match func(series string) bool) {
	var out []reading
	for _, b := range m.buckets {
		b.archived = false
		if !b.inMemory || !match(b.series) {
			continue
		}
		out = append(out, b.readings[b.stored():]...)
		b.readings, b.action, b.inMemory = b.readings[:b.stored()], leave, b.inFlight
	}
	m.buckets = slices.DeleteFunc(m.buckets, func(b *modelBucket) bool { return len(b.readings) == 0 })
	isGone := func(b *modelBucket) bool { return !b.inMemory }
	m.idle, m.touched = slices.DeleteFunc(m.idle, isGone), slices.DeleteFunc(m.touched, isGone)
	for key, s := range m.series {
		if match(key) {
			s.open, s.stale = nil, s.stale || s.handed
		}
	}
	slices.SortFunc(out, func(a, b reading) int { return a.position.Compare(b.position) })
	for _, r := range out {
		m.insert(r)
	}
	for key := range m.series {
		m.retire(key)
	}
}

// retire forgets the state that is valid only while a series has buckets.
func (m *model) retire(key string) {
	s := m.series[key]
	inMemory := slices.ContainsFunc(m.buckets, func(b *modelBucket) bool { return b.inMemory && b.series == key })
	if !inMemory && !s.waits {
		s.excluded = nil
	}
}

// restart forgets everything but the stored readings, and returns the others in order.
func (m *model) restart() []reading {
	var lost []reading
	for _, key := range slices.Sorted(maps.Keys(m.series)) {
		lost = append(lost, m.series[key].awaiting...)
	}
	for _, b := range m.buckets {
		lost = append(lost, b.readings[b.stored():]...)
		b.readings = b.readings[:b.stored()]
		b.inMemory, b.archived, b.inFlight, b.action = false, false, false, leave
	}
	m.buckets = slices.DeleteFunc(m.buckets, func(b *modelBucket) bool { return len(b.readings) == 0 })
	m.series, m.touched, m.idle, m.asking = map[string]*modelSeries{}, nil, nil, nil
	clear(m.stats)
	slices.SortFunc(lost, func(a, b reading) int { return a.position.Compare(b.position) })
	return lost
}

// expire does some of the work that is done when memory is short.
func (r *modelRun) expire() {
	r.catalog.shapes.sweep()
	if r.random.IntN(3) == 0 {
		r.catalog.dropArchived()
		r.model.dropArchived()
	}
	if len(r.model.idle) > 0 {
		r.catalog.expireBucket(r.catalog.idle.oldest)
		r.model.expire()
	}
}

// checkShapes compares the records about shapes with the buckets that have them.
func (r *modelRun) checkShapes() {
	users := map[*shape]int32{}
	for _, b := range r.catalog.buckets {
		users[b.shape]++
		if have := b.shape.schema.bytes(); b.shape != r.catalog.shapes.empty && b.shape.bytes < shapeBytes+have {
			r.t.Errorf("%d bytes are noted of a shape with a schema of %d", b.shape.bytes, have)
		}
	}
	var total, unused int64
	for _, s := range r.catalog.shapes.known {
		if s.users != users[s] {
			r.t.Errorf("%d buckets have a shape, %d are noted", users[s], s.users)
		}
		total += s.bytes
		if s.users == 0 {
			unused += s.bytes
		}
	}
	if have := &r.catalog.shapes; have.total != total || have.unused != unused {
		r.t.Errorf("shapes have %d bytes, %d unused; noted are %d and %d", total, unused, have.total, have.unused)
	}
}
