package refuser

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// The wire protocol's numbers.
const (
	headerBytes   = 16
	maxBytes      = 64 << 20
	opMsg         = 2013
	flagChecksum  = 1
	kindBody      = 0
	kindSequence  = 1
	requestIDAt   = 4
	responseToAt  = 8
	operationAt   = 12
	flagsBytes    = 4
	sequenceBytes = 4 // a section's own length
)

// message is one message of the wire protocol, its header included.
type message []byte

func readMessage(from io.Reader) (message, error) {
	header := make([]byte, headerBytes)
	if _, err := io.ReadFull(from, header); err != nil {
		return nil, err
	}
	length := binary.LittleEndian.Uint32(header)
	if length < headerBytes || length > maxBytes {
		return nil, fmt.Errorf("reading a message of %d bytes", length)
	}
	m := append(message(header), make([]byte, length-headerBytes)...)
	_, err := io.ReadFull(from, m[headerBytes:])
	return m, err
}

func (m message) requestID() uint32  { return binary.LittleEndian.Uint32(m[requestIDAt:]) }
func (m message) responseTo() uint32 { return binary.LittleEndian.Uint32(m[responseToAt:]) }

// command is a command with the documents that came beside it, or an answer.
type command struct {
	body      bson.Raw
	sequence  string // the field that documents stand for; empty: there are none
	documents []bson.Raw
}

// parse takes a message apart; false: it is none that is looked into here.
func parse(m message) (command, bool) {
	if binary.LittleEndian.Uint32(m[operationAt:]) != opMsg || len(m) < headerBytes+flagsBytes+1 {
		return command{}, false
	}
	flags, rest := binary.LittleEndian.Uint32(m[headerBytes:]), m[headerBytes+flagsBytes:]
	if flags&flagChecksum != 0 || rest[0] != kindBody {
		return command{}, false
	}
	var c command
	var ok bool
	if c.body, rest, ok = cutDocument(rest[1:]); !ok {
		return command{}, false
	}
	if len(rest) == 0 {
		return c, true
	}
	if rest[0] != kindSequence || len(rest) < 1+sequenceBytes || int(binary.LittleEndian.Uint32(rest[1:])) != len(rest)-1 {
		return command{}, false
	}
	name, documents, ok := bytes.Cut(rest[1+sequenceBytes:], []byte{0})
	if !ok {
		return command{}, false
	}
	for c.sequence = string(name); len(documents) > 0; {
		var d bson.Raw
		if d, documents, ok = cutDocument(documents); !ok {
			return command{}, false
		}
		c.documents = append(c.documents, d)
	}
	return c, true
}

// cutDocument takes the document at the beginning of some bytes.
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

// build makes a message of a command, with the ids of another one.
func (c command) build(ids message) message {
	m := make(message, headerBytes+flagsBytes)
	copy(m, ids[:headerBytes])
	copy(m[headerBytes:], ids[headerBytes:headerBytes+flagsBytes])
	m = append(append(m, kindBody), c.body...)
	if c.sequence != "" {
		at := len(m) + 1
		m = append(m, kindSequence, 0, 0, 0, 0)
		m = append(append(m, c.sequence...), 0)
		for _, d := range c.documents {
			m = append(m, d...)
		}
		binary.LittleEndian.PutUint32(m[at:], uint32(len(m)-at))
	}
	binary.LittleEndian.PutUint32(m, uint32(len(m)))
	return m
}

// answer makes the answer to a message.
func answer(to message, document bson.D) (message, error) {
	body, err := bson.Marshal(document)
	if err != nil {
		return nil, fmt.Errorf("making an answer: %w", err)
	}
	m := make(message, headerBytes+flagsBytes)
	copy(m[responseToAt:], to[requestIDAt:responseToAt])
	binary.LittleEndian.PutUint32(m[operationAt:], opMsg)
	m = append(append(m, kindBody), body...)
	binary.LittleEndian.PutUint32(m, uint32(len(m)))
	return m, nil
}
