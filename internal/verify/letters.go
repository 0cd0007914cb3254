package verify

import (
	"waterwheel/internal/bitmap"
	"waterwheel/internal/record"
	"waterwheel/internal/timeseries"
)

// maxPartOffset bounds the offsets of letters for elements of arrays. The bitmap has no room for larger ones.
const maxPartOffset = 1 << 44

// Letters are the positions of one topic that have a dead letter. The zero value is empty and ready for use.
type Letters struct {
	partitions map[int32]*letterSet
	deleted    bool // NoteDeleted was called
}

// letterSet holds the letters of one partition.
type letterSet struct {
	records  bitmap.Set // offsets of records that are letters as a whole
	elements bitmap.Set // offset << 20 | part of elements of array records
}

// Add notes a letter. Its part is record.WholeRecord or the index of an element. Letters may come more than once.
func (l *Letters) Add(partition int32, offset int64, part int32) {
	if l.partitions == nil {
		l.partitions = map[int32]*letterSet{}
	}
	s := l.partitions[partition]
	if s == nil {
		s = &letterSet{}
		l.partitions[partition] = s
	}
	switch {
	case part == record.WholeRecord:
		s.records.Add(uint64(offset))
	case part >= 0 && part < timeseries.MaxParts && offset < maxPartOffset:
		s.elements.Add(uint64(offset)<<20 | uint64(part))
	}
}

// NoteDeleted records that the dead-letter topic no longer has all letters that were written to it, as after a re-drive. Then it
// is unknown whether a record without a letter once had one.
func (l *Letters) NoteDeleted() { l.deleted = true }

// has reports whether there is a letter for a measurement or for its whole record.
func (l *Letters) has(partition int32, p timeseries.Position) bool {
	s := l.partitions[partition]
	if s == nil {
		return false
	}
	return s.records.Has(uint64(p.Offset)) ||
		p.Offset < maxPartOffset && s.elements.Has(uint64(p.Offset)<<20|uint64(p.Part))
}
