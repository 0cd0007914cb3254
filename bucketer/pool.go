package bucketer

import "math/bits"

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
	list := &p.free[boundsClass(size)]
	last := len(*list) - 1
	if last < 0 {
		return make([]byte, 0, size)
	}
	b := (*list)[last]
	(*list)[last] = nil
	*list = (*list)[:last]
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
