package bucketer

import "math/bits"

// Blocks have powers of two as sizes: small ones for a small flush, and larger ones as it grows.
const (
	minBlock = 4 << 10
	maxBlock = 64 << 10
	// maxSpare is how much memory of released flushes is kept for the next ones.
	maxSpare = 32 << 20
)

// listWrites is the capacity of a list of writes.
const listWrites = 128

// arena holds the writes of one flush and their bytes. A sender may keep them as long as it likes, because only memory that
// Release takes back is used again.
type arena struct {
	lists  [][]Write
	blocks [][]byte // the full blocks, each as long as it is used
	block  []byte   // the block that is being filled
	total  int64    // bytes of all except block
}

// write returns a new Write. The argument left is how many writes may still follow, including this one.
func (a *arena) write(from *spare, left int) *Write {
	last := len(a.lists) - 1
	if last < 0 || len(a.lists[last]) == cap(a.lists[last]) {
		list := from.takeList(left)
		a.lists = append(a.lists, list)
		a.total += int64(cap(list)) * writeBytes
		last++
	}
	list := append(a.lists[last], Write{})
	a.lists[last] = list
	return &list[len(list)-1]
}

// reserve makes room for n more bytes in the current block.
func (a *arena) reserve(from *spare, n int) {
	if cap(a.block)-len(a.block) >= n {
		return
	}
	a.seal()
	if n > maxBlock {
		a.block = make([]byte, 0, n)
		return
	}
	a.block = from.takeBlock(1 << bits.Len(uint(max(n, minBlock, min(maxBlock, int(a.total)))-1)))
}

// put returns a copy of b in the arena.
func (a *arena) put(from *spare, b []byte) []byte {
	if b == nil {
		return nil
	}
	a.reserve(from, len(b))
	start := len(a.block)
	a.block = append(a.block, b...)
	return a.block[start:len(a.block):len(a.block)]
}

// filled takes back the block that the caller has appended to. If appending moved it to new memory, that becomes the block.
func (a *arena) filled(block []byte) {
	if cap(block) != cap(a.block) {
		a.total += int64(cap(a.block))
	}
	a.block = block
}

// seal ends the current block.
func (a *arena) seal() {
	if a.block != nil {
		a.blocks = append(a.blocks, a.block)
		a.total += int64(cap(a.block))
		a.block = nil
	}
}

// spare is the memory of released flushes, for later ones.
type spare struct {
	lists  [][]Write
	blocks [5][][]byte // by size, from minBlock to maxBlock
	total  int64       // bytes
}

func blockClass(size int) int { return bits.Len(uint(size)) - bits.Len(minBlock) }

// takeList hands out an empty list of writes.
func (s *spare) takeList(need int) []Write {
	last := len(s.lists) - 1
	if last < 0 {
		return make([]Write, 0, max(1, min(need, listWrites)))
	}
	list := s.lists[last]
	s.lists[last] = nil
	s.lists = s.lists[:last]
	s.total -= listWrites * writeBytes
	return list
}

// takeBlock hands out an empty block of at least this size, a power of two.
func (s *spare) takeBlock(size int) []byte {
	for class := blockClass(size); class < len(s.blocks); class++ {
		if last := len(s.blocks[class]) - 1; last >= 0 {
			block := s.blocks[class][last]
			s.blocks[class][last] = nil
			s.blocks[class] = s.blocks[class][:last]
			s.total -= int64(cap(block))
			return block
		}
	}
	return make([]byte, 0, size)
}

// add takes the memory of a flush, up to maxSpare.
func (s *spare) add(a *arena) {
	for _, list := range a.lists {
		if cap(list) == listWrites && s.total+listWrites*writeBytes <= maxSpare {
			clear(list) // drops every reference to old bytes
			s.lists = append(s.lists, list[:0])
			s.total += listWrites * writeBytes
		}
	}
	for _, block := range a.blocks {
		size := cap(block)
		if size >= minBlock && size <= maxBlock && size&(size-1) == 0 && s.total+int64(size) <= maxSpare {
			class := blockClass(size)
			s.blocks[class] = append(s.blocks[class], block[:0])
			s.total += int64(size)
		}
	}
}
