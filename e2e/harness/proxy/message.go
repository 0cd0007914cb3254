package proxy

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// These are numbers of the wire protocol.
const (
	headerBytes   = 16
	maxBytes      = 64 << 20
	opMsg         = 2013
	flagChecksum  = 1
	flagMore      = 2 // in a request, the client expects no answer
	kindBody      = 0
	kindSequence  = 1
	requestIDAt   = 4
	responseToAt  = 8
	operationAt   = 12
	flagsBytes    = 4
	sequenceBytes = 4 // length field of a section
)

// Message is one message of the wire protocol, its header included.
type Message []byte

// Read reads a whole message.
func Read(from io.Reader) (Message, error) {
	m, length, err := ReadHeader(from)
	if err != nil {
		return nil, err
	}
	m = append(m, make([]byte, length-headerBytes)...)
	_, err = io.ReadFull(from, m[headerBytes:])
	return m, err
}

// ReadHeader reads the header of a message, and returns the length of the whole message.
func ReadHeader(from io.Reader) (header Message, length int, err error) {
	header = make(Message, headerBytes)
	if _, err := io.ReadFull(from, header); err != nil {
		return nil, 0, err
	}
	length = int(binary.LittleEndian.Uint32(header))
	if length < headerBytes || length > maxBytes {
		return nil, 0, fmt.Errorf("reading a message of %d bytes", length)
	}
	return header, length, nil
}

// RequestID returns the number that the sender gave the message.
func (m Message) RequestID() uint32 { return binary.LittleEndian.Uint32(m[requestIDAt:]) }

// ResponseTo returns the number of the message that this one answers.
func (m Message) ResponseTo() uint32 { return binary.LittleEndian.Uint32(m[responseToAt:]) }

// Command is a command or an answer, with the documents of its document sequence.
type Command struct {
	Body      bson.Raw
	Sequence  string // name of the field that Documents replaces. Empty means that there is no sequence.
	Documents []bson.Raw
	// Unanswered reports that the client expects no answer.
	Unanswered bool
}

// Name returns the name of the command.
func (c Command) Name() string {
	first, err := c.Body.IndexErr(0)
	if err != nil {
		return ""
	}
	return first.Key()
}

// Write returns the kind and the collection of an insert or update command.
func (c Command) Write() (kind, collection string, ok bool) {
	if kind = c.Name(); kind != "insert" && kind != "update" {
		return "", "", false
	}
	collection, ok = c.Body.Lookup(kind).StringValueOK()
	return kind, collection, ok
}

// ParseBucketWrite parses a message that inserts or updates buckets, and returns which of the two. It returns false for any other
// message.
func ParseBucketWrite(m Message) (c Command, kind string, ok bool) {
	if c, ok = Parse(m); !ok {
		return c, "", false
	}
	kind, collection, ok := c.Write()
	return c, kind, ok && strings.HasSuffix(collection, ".buckets")
}

// Parse parses a message. It returns false for a message of a form that this package does not support.
func Parse(m Message) (Command, bool) {
	if binary.LittleEndian.Uint32(m[operationAt:]) != opMsg || len(m) < headerBytes+flagsBytes+1 {
		return Command{}, false
	}
	flags, rest := binary.LittleEndian.Uint32(m[headerBytes:]), m[headerBytes+flagsBytes:]
	if flags&flagChecksum != 0 || rest[0] != kindBody {
		return Command{}, false
	}
	c := Command{Unanswered: flags&flagMore != 0}
	var ok bool
	if c.Body, rest, ok = cutDocument(rest[1:]); !ok {
		return Command{}, false
	}
	if len(rest) == 0 {
		return c.lift(), true
	}
	if rest[0] != kindSequence || len(rest) < 1+sequenceBytes || int(binary.LittleEndian.Uint32(rest[1:])) != len(rest)-1 {
		return Command{}, false
	}
	name, documents, ok := bytes.Cut(rest[1+sequenceBytes:], []byte{0})
	if !ok {
		return Command{}, false
	}
	for c.Sequence = string(name); len(documents) > 0; {
		var d bson.Raw
		if d, documents, ok = cutDocument(documents); !ok {
			return Command{}, false
		}
		c.Documents = append(c.Documents, d)
	}
	return c, true
}

// lift moves the writes of an insert or update command from its body to Documents. A command may hold them in either place.
func (c Command) lift() Command {
	kind, _, ok := c.Write()
	if !ok {
		return c
	}
	list := map[string]string{"insert": "documents", "update": "updates"}[kind]
	array, ok := c.Body.Lookup(list).ArrayOK()
	if !ok {
		return c
	}
	values, err := array.Values()
	if err != nil {
		return c
	}
	lifted := Command{Sequence: list, Unanswered: c.Unanswered}
	for _, v := range values {
		d, ok := v.DocumentOK()
		if !ok {
			return c
		}
		lifted.Documents = append(lifted.Documents, d)
	}
	elements, err := c.Body.Elements()
	if err != nil {
		return c
	}
	lifted.Body = make(bson.Raw, 4, len(c.Body))
	for _, e := range elements {
		if e.Key() != list {
			lifted.Body = append(lifted.Body, e...)
		}
	}
	lifted.Body = append(lifted.Body, 0)
	binary.LittleEndian.PutUint32(lifted.Body, uint32(len(lifted.Body)))
	return lifted
}

// cutDocument splits off the document at the beginning of b.
func cutDocument(b []byte) (document bson.Raw, rest []byte, ok bool) {
	if len(b) < 4 {
		return nil, nil, false
	}
	n := int(binary.LittleEndian.Uint32(b))
	if n < 5 || n > len(b) {
		return nil, nil, false
	}
	return bson.Raw(b[:n]), b[n:], true
}

// Build encodes the command as a message with the ids and flags of another message.
func (c Command) Build(ids Message) Message {
	m := make(Message, headerBytes+flagsBytes)
	copy(m, ids[:headerBytes])
	copy(m[headerBytes:], ids[headerBytes:headerBytes+flagsBytes])
	m = append(append(m, kindBody), c.Body...)
	if c.Sequence != "" {
		at := len(m) + 1
		m = append(m, kindSequence, 0, 0, 0, 0)
		m = append(append(m, c.Sequence...), 0)
		for _, d := range c.Documents {
			m = append(m, d...)
		}
		binary.LittleEndian.PutUint32(m[at:], uint32(len(m)-at))
	}
	binary.LittleEndian.PutUint32(m, uint32(len(m)))
	return m
}

// Answer returns a message with document as the answer to another message.
func Answer(to Message, document bson.D) (Message, error) {
	body, err := bson.Marshal(document)
	if err != nil {
		return nil, fmt.Errorf("making an answer: %w", err)
	}
	m := make(Message, headerBytes+flagsBytes)
	copy(m[responseToAt:], to[requestIDAt:responseToAt])
	binary.LittleEndian.PutUint32(m[operationAt:], opMsg)
	m = append(append(m, kindBody), body...)
	binary.LittleEndian.PutUint32(m, uint32(len(m)))
	return m, nil
}
