package tap

import (
	"hash/maphash"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/e2e/harness/wire"
)

// Write is a message that writes buckets, or an incomplete message, which may or may not do so.
type Write struct {
	// Sum identifies the message. Two taps on the same path compute the same sum. Zero means that the message is incomplete.
	Sum uint64
	// Length is the length in the message's header. Received is the number of bytes that have arrived so far.
	Length, Received int
	// Began and Whole are the times of the first and last byte of the message. Answered is the time of the first byte of the
	// server's answer. Ended is when the connection ended, so that neither more bytes nor an answer can arrive. A zero time means
	// not yet, or never.
	Began, Whole, Answered, Ended time.Time
	// Kind is insert or update.
	Kind       string
	Statements []Statement
}

// Statement is the write of one bucket.
type Statement struct {
	Bucket bson.ObjectID
	// Offsets are the elements that the write adds to the bucket's control.source.offsets.
	Offsets [][]byte
}

// seed is shared by all taps of the process.
var seed = maphash.MakeSeed()

// read parses a complete message. It returns false if the message writes no buckets.
func (w *Write) read(m wire.Message) bool {
	c, ok := wire.Parse(m)
	if !ok {
		return false
	}
	kind, collection, ok := c.Write()
	if !ok || !strings.HasSuffix(collection, ".buckets") {
		return false
	}
	w.Sum, w.Kind = maphash.Bytes(seed, m), kind
	for _, d := range c.Documents {
		s := Statement{}
		if kind == "insert" {
			s.Bucket, _ = d.Lookup("_id").ObjectIDOK()
			s.listed(d.Lookup("control", "source", "offsets"))
		} else {
			s.Bucket, _ = d.Lookup("q", "_id").ObjectIDOK()
			s.listed(d.Lookup("u", "$push", "control.source.offsets"))
		}
		w.Statements = append(w.Statements, s)
	}
	return true
}

// listed adds one element of offsets, or an array of them.
func (s *Statement) listed(v bson.RawValue) {
	if _, element, ok := v.BinaryOK(); ok {
		s.Offsets = append(s.Offsets, append([]byte{}, element...))
		return
	}
	if array, ok := v.ArrayOK(); ok {
		values, _ := array.Values()
		for _, element := range values {
			s.listed(element)
		}
	}
}
