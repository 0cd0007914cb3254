package discard

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"strings"
)

// These are numbers of the wire protocol.
const (
	headerBytes    = 16
	flagsBytes     = 4
	lengthBytes    = 4
	maxBytes       = 64 << 20 // upper bound of a message
	opMessage      = 2013
	flagChecksum   = 1 << 0
	flagMoreToCome = 1 << 1
	checksumBytes  = 4
	kindBody       = 0
	kindSequence   = 1
	typeString     = 0x02
	typeArray      = 0x04
)

// bucketsSuffix is the suffix of the collections whose writes the proxy answers.
const bucketsSuffix = ".buckets"

// headBytes is the number of bytes that identify a message. They suffice for the longest name of a collection, which MongoDB
// limits to 255 bytes.
const headBytes = headerBytes + flagsBytes + 1 + lengthBytes + 1 + len("insert\x00") + lengthBytes + 256

// head is the beginning of a request.
type head struct {
	length int // length of the whole message
	id     uint32
	flags  uint32
	write  bool // the command writes buckets
	update bool // the command is an update of buckets
}

// peekHead reads the head of the next request, and leaves the request in the reader.
func peekHead(from *bufio.Reader) (head, error) {
	b, err := from.Peek(headerBytes)
	if err != nil {
		return head{}, err
	}
	h := head{length: int(binary.LittleEndian.Uint32(b)), id: binary.LittleEndian.Uint32(b[4:])}
	if h.length < headerBytes || h.length > maxBytes {
		return head{}, fmt.Errorf("reading a message of %d bytes", h.length)
	}
	if binary.LittleEndian.Uint32(b[12:]) != opMessage {
		return h, nil
	}
	if b, err = from.Peek(min(headBytes, h.length)); err != nil {
		return head{}, err
	}
	h.look(b[headerBytes:])
	return h, nil
}

// look decides from the first bytes after the header whether the request writes buckets. The first section is a document. Its
// first element has the command's name as key, and the collection's name as value.
func (h *head) look(b []byte) {
	if len(b) < flagsBytes+1+lengthBytes+1 || b[flagsBytes] != kindBody || b[flagsBytes+1+lengthBytes] != typeString {
		return
	}
	h.flags = binary.LittleEndian.Uint32(b)
	command, rest, ok := bytes.Cut(b[flagsBytes+1+lengthBytes+1:], []byte{0})
	if !ok || len(rest) < lengthBytes {
		return
	}
	n := int(binary.LittleEndian.Uint32(rest))
	if rest = rest[lengthBytes:]; n < 1 || n > len(rest) || !strings.HasSuffix(string(rest[:n-1]), bucketsSuffix) {
		return
	}
	h.update = string(command) == "update"
	h.write = h.update || string(command) == "insert"
}

// countDocuments reads a write and counts its documents, in all sections of the message.
func (h *head) countDocuments(from *bufio.Reader) (int, error) {
	m := message{from: from, left: h.length}
	if h.flags&flagChecksum != 0 {
		m.left -= checksumBytes
		defer func() { _, _ = from.Discard(checksumBytes) }()
	}
	m.skip(headerBytes + flagsBytes)
	n := 0
	for m.err == nil && m.left > 0 {
		switch kind := m.byte(); kind {
		case kindBody:
			n += m.body()
		case kindSequence:
			n += m.sequence()
		default:
			m.fail("a section of kind %d", kind)
		}
	}
	return n, m.err
}

// message is the unread rest of a message in a reader.
type message struct {
	from *bufio.Reader
	left int
	err  error
}

func (m *message) fail(format string, args ...any) {
	if m.err == nil {
		m.err = fmt.Errorf("reading a write: "+format, args...)
	}
}

// skip skips n bytes.
func (m *message) skip(n int) {
	if m.err != nil {
		return
	}
	if n < 0 || n > m.left {
		m.fail("%d bytes more than the message has", n-m.left)
		return
	}
	m.left -= n
	_, m.err = m.from.Discard(n)
}

// take returns the next n bytes, where n is small. They are valid until the next read. After an error they are zeros.
func (m *message) take(n int) []byte {
	if n > m.left {
		m.fail("a message that ends too early")
	}
	var b []byte
	if m.err == nil {
		b, m.err = m.from.Peek(n)
	}
	if m.err != nil {
		return make([]byte, n)
	}
	m.left -= n
	_, m.err = m.from.Discard(n)
	return b
}

func (m *message) byte() byte { return m.take(1)[0] }

func (m *message) fill(b []byte) {
	if m.err != nil {
		return
	}
	if len(b) > m.left {
		m.fail("a message that ends too early")
		return
	}
	m.left -= len(b)
	_, m.err = io.ReadFull(m.from, b)
}

// length reads a length that includes itself, and returns the number of bytes that follow.
func (m *message) length() int {
	n := int(binary.LittleEndian.Uint32(m.take(lengthBytes))) - lengthBytes
	if m.err == nil && (n < 1 || n > m.left) {
		m.fail("a length of %d with %d bytes left", n+lengthBytes, m.left)
	}
	if m.err != nil {
		return 0
	}
	return n
}

// name skips a name and its terminating zero, and returns their length.
func (m *message) name() int {
	for n := 1; m.err == nil; n++ {
		if m.byte() == 0 {
			return n
		}
	}
	return 0
}

// sequence skips a section of documents and counts them.
func (m *message) sequence() int {
	rest := m.length()
	rest -= m.name()
	n := 0
	for ; rest > 0 && m.err == nil; n++ {
		size := m.length()
		m.skip(size)
		rest -= size + lengthBytes
	}
	if rest != 0 {
		m.fail("documents that reach beyond their section")
	}
	return n
}

// body skips the command's document and counts the documents in its array, where a short bulk may have them.
func (m *message) body() int {
	b := make([]byte, m.length())
	m.fill(b)
	n := 0
	for len(b) > 1 && m.err == nil {
		kind := b[0]
		name, rest, ok := bytes.Cut(b[1:], []byte{0})
		size, known := valueBytes(kind, rest)
		if !ok || !known || size < 0 || size > len(rest) {
			m.fail("an element of type %#x in the command", kind)
			break
		}
		if kind == typeArray && (string(name) == "documents" || string(name) == "updates") {
			n += countElements(rest[:size])
		}
		b = rest[size:]
	}
	return n
}

// valueBytes returns the length of the value at the beginning of b. It returns false for a type that does not occur in a command.
func valueBytes(kind byte, b []byte) (int, bool) {
	counted := func(plus int) (int, bool) {
		if len(b) < lengthBytes {
			return 0, false
		}
		return int(int32(binary.LittleEndian.Uint32(b))) + plus, true
	}
	switch kind {
	case 0x03, typeArray: // a document or an array, whose length includes itself
		return counted(0)
	case typeString:
		return counted(lengthBytes)
	case 0x05: // binary
		return counted(lengthBytes + 1)
	case 0x01, 0x09, 0x11, 0x12: // double, date, timestamp, int64
		return 8, true
	case 0x07: // ObjectId
		return 12, true
	case 0x08: // bool
		return 1, true
	case 0x0A: // null
		return 0, true
	case 0x10: // int32
		return 4, true
	}
	return 0, false
}

// countElements counts the documents of an array.
func countElements(array []byte) int {
	n := 0
	for b := array[lengthBytes:]; len(b) > 1 && b[0] == 0x03; n++ {
		_, rest, ok := bytes.Cut(b[1:], []byte{0})
		size, known := valueBytes(0x03, rest)
		if !ok || !known || size < 5 || size > len(rest) {
			break
		}
		b = rest[size:]
	}
	return n
}
