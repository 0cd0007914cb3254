package bucketer

// Bounds of the bytes an arena allocates at once.
const (
	minChunk = 4 << 10
	maxChunk = 256 << 10
)

// arena holds the writes of one flush and their bytes. They are never used again for anything else: whoever sends them
// may do so as long as it likes.
type arena struct {
	chunk  []byte
	writes []Write
	size   int   // of a chunk
	total  int64 // bytes allocated
}

// newArena returns an arena for so many writes, whose measurements take so many bytes.
func newArena(writes int, bytes int64) arena {
	return arena{
		writes: make([]Write, 0, writes),
		size:   int(min(max(2*bytes, minChunk), maxChunk)),
		total:  int64(writes) * writeBytes,
	}
}

// keep returns a copy of b.
func (a *arena) keep(b []byte) []byte { return append(a.room(len(b)), b...) }

// keepString returns a copy of s.
func (a *arena) keepString(s string) []byte { return append(a.room(len(s)), s...) }

// room returns an empty slice that n bytes fit into, and no more.
func (a *arena) room(n int) []byte {
	if n > a.size/4 {
		a.total += int64(n)
		return make([]byte, 0, n)
	}
	if cap(a.chunk)-len(a.chunk) < n {
		a.chunk = make([]byte, 0, a.size)
		a.total += int64(a.size)
	}
	start := len(a.chunk)
	a.chunk = a.chunk[:start+n]
	return a.chunk[start : start : start+n]
}

// write returns a new Write.
func (a *arena) write() *Write {
	if len(a.writes) == cap(a.writes) { // of documents that were split
		a.writes = make([]Write, 0, 2*cap(a.writes))
		a.total += int64(cap(a.writes)) * writeBytes
	}
	a.writes = append(a.writes, Write{})
	return &a.writes[len(a.writes)-1]
}
