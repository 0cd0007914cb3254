package dlq

import "github.com/RoaringBitmap/roaring/v2/roaring64"

// positions is a set of places that letters come from: a bit for each record, so that millions of letters fit.
type positions map[origin]*marked

// origin is a source partition. The id is zero in letters of Kafka Connect.
type origin struct {
	topic     string
	id        [16]byte
	partition int32
}

// marked are the positions of one source partition.
type marked struct {
	records roaring64.Bitmap            // whole ones, by offset
	parts   map[int64]*roaring64.Bitmap // elements of array records, by offset
}

// bitmap is where the letter's bit is, and which it is.
func (p positions) bitmap(l *Letter) (*roaring64.Bitmap, uint64) {
	o := origin{topic: l.Topic, id: l.TopicID, partition: l.Partition}
	m := p[o]
	if m == nil {
		m = &marked{parts: map[int64]*roaring64.Bitmap{}}
		p[o] = m
	}
	if l.Part == WholeRecord {
		return &m.records, uint64(l.Offset)
	}
	parts := m.parts[l.Offset]
	if parts == nil {
		parts = roaring64.New()
		m.parts[l.Offset] = parts
	}
	return parts, uint64(l.Part)
}

// add reports whether the letter's position was not in the set before.
func (p positions) add(l *Letter) bool {
	bitmap, bit := p.bitmap(l)
	return bitmap.CheckedAdd(bit)
}

// has reports whether the letter's position is in the set.
func (p positions) has(l *Letter) bool {
	bitmap, bit := p.bitmap(l)
	return bitmap.Contains(bit)
}
