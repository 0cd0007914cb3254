package bucketer

import (
	"errors"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"waterwheel/internal/measurement"
	"waterwheel/internal/timeseries"
	"waterwheel/internal/timeseries/rawbson"
)

// FuzzInsert gives the catalog arbitrary bytes as elements, twice, for a bucket's insert and its update. Accepted elements must
// come out as well-formed documents.
func FuzzInsert(f *testing.F) {
	for _, d := range []bson.D{
		{},
		{{Key: "a", Value: 1.5}, {Key: "b", Value: "x"}},
		{{Key: "o", Value: bson.D{{Key: "p", Value: bson.A{1, nil, bson.D{}}}}}},
		{{Key: "r", Value: bson.Regex{Pattern: "a", Options: "i"}}, {Key: "c", Value: bson.CodeWithScope{Code: "f", Scope: bson.D{}}}},
		{{Key: "d", Value: bson.DBPointer{DB: "x"}}, {Key: "b", Value: bson.Binary{Subtype: 2, Data: []byte{1}}}},
		{{Key: "n", Value: bson.NewDecimal128(0x3040000000000000, 7)}, {Key: "t", Value: bson.Timestamp{T: 1}}},
	} {
		f.Add(elementsOf(f, d), elementsOf(f, append(d, bson.E{Key: "more", Value: true})), int64(1), int64(61_000))
	}
	options := testOptions(f)
	f.Fuzz(func(t *testing.T, first, second []byte, time1, time2 int64) {
		c := New(options)
		for i, m := range []measurement.Measurement{{Time: time1, Elements: first}, {Time: time2, Elements: second}} {
			m.Position.Offset = int64(i)
			if err := c.Insert(&m); err != nil {
				if !errors.Is(err, ErrMalformed) {
					t.Fatal(err)
				}
				continue
			}
			flush := c.Prepare(0)
			for _, w := range flush.Writes {
				checkWellFormed(t, w.Document)
				checkWellFormed(t, w.Filter)
			}
			c.Finish(flush, make([]Outcome, len(flush.Writes)), 0)
		}
		c.Expire(0)
		if n := c.memory.buckets; n != 0 {
			t.Errorf("%d bytes of buckets are left", n)
		}
	})
}

func checkWellFormed(t *testing.T, document bson.Raw) {
	t.Helper()
	if document == nil {
		return
	}
	if err := document.Validate(); err != nil {
		t.Errorf("a document is malformed: %v", err)
	}
}

// FuzzLoad gives the catalog arbitrary bounds, counts and positions in a candidate for reopening.
func FuzzLoad(f *testing.F) {
	options := testOptions(f)
	options.Reopen = true
	fields := elementsOf(f, bson.D{{Key: "a", Value: 1.5}, {Key: "o", Value: bson.D{{Key: "x", Value: "s"}}}})
	f.Add(fields, fields, fields, int64(60_000), int32(1), []byte{0}, int32(0))
	f.Add(fields, []byte{}, fields, int64(60_000), int32(2), []byte{0, 4}, int32(500))
	f.Fuzz(func(t *testing.T, least, most, elements []byte, time int64, count int32, positions []byte, size int32) {
		c := New(options)
		m := measurement.Measurement{Time: time, Elements: elements, Position: timeseries.Position{Offset: 9}}
		if c.Insert(&m) != nil {
			return
		}
		candidate := Candidate{Document: storedDocument(least, most, time, count, positions), Size: size}
		c.Load([]Answer{{Lookup: c.Lookups(1)[0], Candidates: []Candidate{candidate}}})
		flush := c.Prepare(0)
		added := 0
		for _, w := range flush.Writes {
			checkWellFormed(t, w.Document)
			added += int(w.Added)
		}
		if added != 1 {
			t.Errorf("%d measurements are written, want 1", added)
		}
	})
}

// storedDocument returns a bucket of the series without meta, as a candidate holds it.
func storedDocument(least, most []byte, time int64, count int32, positions []byte) bson.Raw {
	dst := []byte{0, 0, 0, 0}
	dst = append(rawbson.AppendHeader(dst, bson.TypeObjectID, "_id"), make([]byte, 12)...)
	dst, control := startDocument(dst, bson.TypeEmbeddedDocument, "control")
	dst = appendInt32Named(dst, "version", 1)
	for name, fields := range map[string][]byte{"min": least, "max": most} {
		var start int
		dst, start = startDocument(dst, bson.TypeEmbeddedDocument, name)
		dst = append(appendDateNamed(dst, "time", time), fields...)
		dst = rawbson.EndDocument(dst, start)
	}
	dst = appendInt32Named(dst, "count", count)
	dst, source := startDocument(dst, bson.TypeEmbeddedDocument, "source")
	dst = appendInt32Named(dst, "partition", 0)
	dst = bsoncore.AppendBinaryElement(dst, "topicId", uuidSubtype, make([]byte, 16))
	dst, offsets := startDocument(dst, bson.TypeArray, "offsets")
	dst = bsoncore.AppendBinaryElement(dst, "0", 0, positions)
	return rawbson.EndDocument(rawbson.EndDocument(rawbson.EndDocument(rawbson.EndDocument(dst, offsets), source), control), 0)
}
