package discard

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// message2013 returns a message with a command, and with documents in a section of their own.
func message2013(t testing.TB, flags uint32, name string, documents []bson.D, command bson.D) []byte {
	t.Helper()
	marshal := func(d bson.D) []byte {
		b, err := bson.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	m := make([]byte, headerBytes+flagsBytes)
	binary.LittleEndian.PutUint32(m[4:], 77)
	binary.LittleEndian.PutUint32(m[12:], opMessage)
	binary.LittleEndian.PutUint32(m[16:], flags)
	m = append(append(m, kindBody), marshal(command)...)
	if name != "" {
		at := len(m) + 1
		m = append(append(m, kindSequence, 0, 0, 0, 0), append([]byte(name), 0)...)
		for _, d := range documents {
			m = append(m, marshal(d)...)
		}
		binary.LittleEndian.PutUint32(m[at:], uint32(len(m)-at))
	}
	if flags&flagChecksum != 0 {
		m = append(m, 1, 2, 3, 4)
	}
	binary.LittleEndian.PutUint32(m, uint32(len(m)))
	return m
}

func TestHeadTellsBucketWrites(t *testing.T) {
	documents := []bson.D{{{Key: "a", Value: 1}}, {{Key: "b", Value: "text"}}, {}}
	for name, c := range map[string]struct {
		message []byte
		write   bool
		n       int
	}{
		"insert":     {message2013(t, 0, "documents", documents, bson.D{{Key: "insert", Value: "x.buckets"}}), true, 3},
		"update":     {message2013(t, 0, "updates", documents, bson.D{{Key: "update", Value: "x.buckets"}}), true, 3},
		"checksum":   {message2013(t, flagChecksum, "updates", documents, bson.D{{Key: "update", Value: "x.buckets"}}), true, 3},
		"in array":   {message2013(t, 0, "", nil, bson.D{{Key: "insert", Value: "x.buckets"}, {Key: "documents", Value: documents}}), true, 3},
		"none":       {message2013(t, 0, "documents", nil, bson.D{{Key: "insert", Value: "x.buckets"}}), true, 0},
		"find":       {message2013(t, 0, "", nil, bson.D{{Key: "find", Value: "x.buckets"}}), false, 0},
		"delete":     {message2013(t, 0, "deletes", documents, bson.D{{Key: "delete", Value: "x.buckets"}}), false, 0},
		"other":      {message2013(t, 0, "documents", documents, bson.D{{Key: "insert", Value: "x.partitions"}}), false, 0},
		"no name":    {message2013(t, 0, "", nil, bson.D{{Key: "insert", Value: 1}}), false, 0},
		"empty":      {message2013(t, 0, "", nil, bson.D{}), false, 0},
		"suffix too": {message2013(t, 0, "documents", documents, bson.D{{Key: "insert", Value: "x.buckets.old"}}), false, 0},
	} {
		from := bufio.NewReaderSize(bytes.NewReader(append(c.message, "next"...)), 4096)
		h, err := peekHead(from)
		if err != nil || h.write != c.write || h.length != len(c.message) || h.id != 77 {
			t.Errorf("%s: %+v, %v", name, h, err)
			continue
		}
		if !h.write {
			continue
		}
		n, err := h.countDocuments(from)
		rest, _ := from.Peek(4)
		if err != nil || n != c.n || string(rest) != "next" {
			t.Errorf("%s: %d documents, then %q, %v", name, n, rest, err)
		}
	}
}

// FuzzRequest checks that no bytes make the parser read beyond the message or panic.
func FuzzRequest(f *testing.F) {
	f.Add(message2013(f, flagChecksum, "documents", []bson.D{{{Key: "a", Value: 1}}}, bson.D{{Key: "insert", Value: "x.buckets"}}))
	f.Add(message2013(f, 0, "", nil, bson.D{{Key: "update", Value: "x.buckets"}, {Key: "updates", Value: bson.A{bson.D{}}}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		source := bytes.NewReader(append(bytes.Clone(b), "after"...))
		from := bufio.NewReaderSize(source, 4096)
		h, err := peekHead(from)
		if err != nil || !h.write || h.length > len(b) {
			return
		}
		before := from.Buffered() + source.Len()
		_, err = h.countDocuments(from)
		taken := before - from.Buffered() - source.Len()
		if taken > h.length || err == nil && taken != h.length {
			t.Errorf("a message of %d bytes: %d were read, %v", h.length, taken, err)
		}
	})
}

func BenchmarkCountDocuments(b *testing.B) {
	documents := make([]bson.D, 500)
	for i := range documents {
		documents[i] = bson.D{{Key: "_id", Value: i}, {Key: "data", Value: make([]byte, 8<<10)}}
	}
	m := message2013(b, 0, "documents", documents, bson.D{{Key: "insert", Value: "x.buckets"}})
	b.SetBytes(int64(len(m)))
	b.ReportAllocs()
	source := bytes.NewReader(nil)
	from := bufio.NewReaderSize(source, readBytes)
	for b.Loop() {
		source.Reset(m)
		from.Reset(source)
		h, err := peekHead(from)
		if err != nil {
			b.Fatal(err)
		}
		if n, err := h.countDocuments(from); err != nil || n != len(documents) {
			b.Fatal(n, err)
		}
	}
}
