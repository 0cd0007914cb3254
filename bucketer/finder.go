package bucketer

import (
	"bytes"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries/rawbson"
)

// finder finds the members of an object by name, of an array by position, each once. It expects to be asked in their
// order, or for names that are not there. Small objects it reads again for what comes out of order, others it spreads out.
type finder struct {
	kind  bson.Type
	rest  []byte // elements, the first of which was not found yet
	found uint64 // those of rest that were, by their bits
	reads int    // how often rest was read for what is not its first element
	spread
}

// Up to so many bytes, so many times, it is quicker to read elements again than to spread them out.
const (
	smallObject = 256
	mostReads   = 32
)

// next returns the member for a name; in an array the next one, whatever the name.
func (f *finder) next(name []byte) (rawbson.Element, bool) {
	if f.members != nil {
		return f.spread.find(name)
	}
	if len(f.rest) == 0 {
		return rawbson.Element{}, false
	}
	e, after, _ := rawbson.Read(f.rest)
	if f.kind == bson.TypeArray || bytes.Equal(e.Name, name) {
		f.rest, f.found = after, f.found>>1
		f.skip()
		return e, true
	}
	if len(after) == 0 {
		return rawbson.Element{}, false
	}
	if len(after) > smallObject || f.reads == mostReads {
		f.spread = spreadOut(f.rest, f.found)
		return f.spread.find(name)
	}
	f.reads++
	return f.search(after, name)
}

// search looks for a name behind the first element. What stands too far behind is not noted as found, but spread out.
func (f *finder) search(after, name []byte) (rawbson.Element, bool) {
	at := 1
	for e := range rawbson.All(after) {
		switch {
		case !bytes.Equal(e.Name, name) || f.found>>at&1 == 1:
		case at < 64:
			f.found |= 1 << at
			return e, true
		default:
			f.spread = spreadOut(f.rest, f.found)
			return f.spread.find(name)
		}
		at++
	}
	return rawbson.Element{}, false
}

// skip passes what was found already.
func (f *finder) skip() {
	for ; f.found&1 == 1; f.found >>= 1 {
		_, f.rest, _ = rawbson.Read(f.rest)
	}
}

// isEmpty reports whether all members were found.
func (f *finder) isEmpty() bool {
	if f.members != nil {
		return f.left == 0
	}
	return len(f.rest) == 0
}

// appendRest appends the members that were not found, in their order.
func (f *finder) appendRest(dst []byte) []byte {
	if f.members != nil {
		return f.appendLeft(dst)
	}
	found := f.found
	for rest := f.rest; len(rest) > 0; found >>= 1 {
		_, after, _ := rawbson.Read(rest)
		if found&1 == 0 {
			dst = append(dst, rest[:len(rest)-len(after)]...)
		}
		rest = after
	}
	return dst
}
