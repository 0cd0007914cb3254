package tap

import (
	"hash/maphash"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/e2e/harness/wire"
)

// Write is a message on its way that writes buckets, or that is not whole, so that nobody knows.
type Write struct {
	// Sum tells the message from all others; two taps on one way make the same of it. Zero means that it is not whole.
	Sum uint64
	// Length is what the message says, Received what came of it so far.
	Length, Received int
	// Began is when its first byte came, Whole its last, and Answered when the first byte of the answer came from the
	// server. Ended is when the connection had ended and no more of it, or no answer could come. Zero means not yet, or never.
	Began, Whole, Answered, Ended time.Time
	// Kind is insert or update.
	Kind       string
	Statements []Statement
}

// Statement is the write of one bucket.
type Statement struct {
	Bucket bson.ObjectID
	// Offsets are the elements that it puts into the bucket's control.source.offsets.
	Offsets [][]byte
}

// seed is the same for all taps of the process.
var seed = maphash.MakeSeed()

// read takes in what the message says now that it is whole. False means that it writes no buckets.
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

// listed takes one element of offsets, or an array of them.
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
