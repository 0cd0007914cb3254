package bucketer

import (
	"math/bits"
)

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

// pop takes the last of the unused pieces of memory. False means that there is none.
func pop[T any](unused *[][]T) (piece []T, ok bool) {
	last := len(*unused) - 1
	if last < 0 {
		return nil, false
	}
	piece, (*unused)[last] = (*unused)[last], nil
	*unused = (*unused)[:last]
	return piece, true
}

// takeList hands out an empty list of writes.
func (s *spare) takeList(need int) []Write {
	list, ok := pop(&s.lists)
	if !ok {
		return make([]Write, 0, max(1, min(need, listWrites)))
	}
	s.total -= listWrites * writeBytes
	return list
}

// takeBlock hands out an empty block of at least this size, a power of two.
func (s *spare) takeBlock(size int) []byte {
	for class := blockClass(size); class < len(s.blocks); class++ {
		if block, ok := pop(&s.blocks[class]); ok {
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

// Memory of bounds of at most maxPooledBounds bytes is used again. At most about maxIdleBounds bytes wait for that.
const (
	maxPooledBounds = 1 << 10
	maxIdleBounds   = 4 << 20
)

// boundsPool hands out the memory of buckets' bounds and takes it back, in the heap's own size classes. A bucket's bounds are
// mostly made once for one measurement, made again for several, and freed with the bucket.
type boundsPool struct {
	free [boundsClasses][][]byte
	idle int64 // bytes in free, including the lists
}

const (
	boundsClasses = 8 + 3*8 // to 128 bytes in steps of 16, then 8 steps to each next power of two
	idleBytes     = 24      // per entry in free
)

// boundsClass is the index in free of memory with a size that classBytes returns.
func boundsClass(size int) int {
	if size <= 128 {
		return max(0, size/16-1)
	}
	power := bits.Len(uint(size-1)) - 1 // size is above 1<<power
	return 8*(power-6) + (size-1<<power)>>(power-3) - 1
}

// take hands out empty memory for n bytes.
func (p *boundsPool) take(n int) []byte {
	size := int(classBytes(n))
	if size > maxPooledBounds {
		return make([]byte, 0, n)
	}
	b, ok := pop(&p.free[boundsClass(size)])
	if !ok {
		return make([]byte, 0, size)
	}
	p.idle -= int64(size) + idleBytes
	return b
}

// release takes back memory that take has handed out. Its content must not be used any more.
func (p *boundsPool) release(b []byte) {
	size := cap(b)
	if size == 0 || size > maxPooledBounds || p.idle > maxIdleBounds {
		return
	}
	list := &p.free[boundsClass(size)]
	*list = append(*list, b[:0])
	p.idle += int64(size) + idleBytes
}

// trim leaves all unused memory to the garbage collector.
func (p *boundsPool) trim() { *p = boundsPool{} }

// Buffers have powers of two as sizes. Buffers larger than maxPooled are left to the garbage collector.
const (
	minBuffer = 128
	maxPooled = 64 << 10
)

// buffers hands out the memory of rows and takes it back, so that a warmed-up catalog allocates none.
type buffers struct {
	free  [10][][]byte // by class: 128 bytes to 64 KiB
	idle  int64        // bytes in free
	total int64        // bytes handed out and in free
}

// class is the index in free of buffers that hold n bytes.
func class(n int) int { return max(0, bits.Len(uint(n-1))-bits.Len(minBuffer-1)) }

// grow returns a buffer with the content of b and room for n more bytes, and takes b back.
func (p *buffers) grow(b []byte, n int) []byte {
	size := max(minBuffer, 1<<bits.Len(uint(len(b)+n-1)))
	grown := append(p.take(size), b...)
	p.release(b)
	return grown
}

// take hands out an empty buffer of this size, a power of two.
func (p *buffers) take(size int) []byte {
	if size <= maxPooled {
		if b, ok := pop(&p.free[class(size)]); ok {
			p.idle -= int64(size)
			return b
		}
	}
	p.total += int64(size)
	return make([]byte, 0, size)
}

// release takes a buffer back. Its content must not be used any more.
func (p *buffers) release(b []byte) {
	size := cap(b)
	switch {
	case size == 0:
	case size > maxPooled:
		p.total -= int64(size)
	default:
		p.free[class(size)] = append(p.free[class(size)], b[:0])
		p.idle += int64(size)
	}
}

// trim leaves all buffers that are not in use to the garbage collector.
func (p *buffers) trim() {
	p.free = [len(p.free)][][]byte{}
	p.total -= p.idle
	p.idle = 0
}
