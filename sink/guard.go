package sink

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"

	"waterwheel/internal/timeseries"
)

// The two operations of the wire protocol that the driver sends: OP_MSG carries every command; OP_QUERY only the very
// first greeting of a connection.
const (
	opQuery = 2004
	opMsg   = 2013
)

// guard stops bucket writes and claims on their last step, before they are handed to the kernel (E7).
type guard struct {
	// lease reports whether they may be sent now. Nil means always.
	lease func() bool
	// stopped is called when one was stopped; may be nil.
	stopped func()
}

// held asks the lease, and reports a no.
func (g guard) held() bool {
	if g.lease == nil || g.lease() {
		return true
	}
	if g.stopped != nil {
		g.stopped()
	}
	return false
}

// guarded reports whether a wire message writes buckets or partition documents. What cannot be read as a message counts as
// one: only reads, greetings and writes of the options document pass.
func guarded(message []byte) bool {
	const header = 16
	if len(message) < header || int(binary.LittleEndian.Uint32(message)) != len(message) {
		return true
	}
	switch binary.LittleEndian.Uint32(message[12:]) {
	case opQuery:
		return false
	case opMsg:
		command, collection, ok := commandOf(message[header:])
		return !ok || slices.Contains(writes, command) && !strings.HasSuffix(collection, timeseries.OptionsSuffix)
	default:
		return true
	}
}

// writes are the commands that write.
var writes = []string{"insert", "update", "delete", "findAndModify", "findandmodify", "bulkWrite"}

// commandOf reads the first element of the command in the body of an OP_MSG: its name, and its value when that is a
// string.
func commandOf(body []byte) (command, collection string, ok bool) {
	const (
		preamble   = 4 + 1 + 4 // flags, kind of the section, length of the document
		typeString = 2
	)
	if len(body) < preamble+1 || body[4] != 0 {
		return "", "", false
	}
	kind, rest := body[preamble], body[preamble+1:]
	end := bytes.IndexByte(rest, 0)
	if end < 0 {
		return "", "", false
	}
	command, rest = string(rest[:end]), rest[end+1:]
	if kind != typeString {
		return command, "", true
	}
	if len(rest) < 4 {
		return "", "", false
	}
	length := int(binary.LittleEndian.Uint32(rest))
	if length < 1 || length > len(rest)-4 {
		return "", "", false
	}
	return command, string(rest[4 : 4+length-1]), true
}
