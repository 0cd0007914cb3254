package sink

import (
	"errors"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/record"
	"waterwheel/internal/timeseries"
)

// listedBucket returns the fields of a bucket of three measurements that Stored reads.
func listedBucket(t testing.TB) bson.Raw {
	t.Helper()
	encoded := timeseries.AppendPositions(nil, []timeseries.Position{{Offset: 7}, {Offset: 8, Part: 2}, {Offset: 11}})
	d, err := bson.Marshal(bson.D{
		{Key: timeseries.FieldID, Value: bson.NewObjectID()},
		{Key: timeseries.FieldControl, Value: bson.D{
			{Key: timeseries.FieldCount, Value: int32(3)},
			{Key: timeseries.FieldSource, Value: bson.D{{Key: timeseries.FieldOffsets, Value: bson.A{bson.Binary{Data: encoded}}}}},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// FuzzListed checks that no bytes make the reading of stored positions panic. It reports unreadable bytes as damaged.
func FuzzListed(f *testing.F) {
	whole := listedBucket(f)
	f.Add([]byte(whole))
	for i := range whole { // one wrong byte at a time, including the lengths of nested values
		broken := append([]byte(nil), whole...)
		broken[i] ^= 0xff
		f.Add(broken)
		f.Add([]byte(whole[:i]))
	}
	f.Add([]byte("0000\x03control\x00\x00\x00\x00\x00")) // the driver panics in an object of length 0
	p := &Partition{store: &Store{}}
	f.Fuzz(func(t *testing.T, document []byte) {
		set := timeseries.NewPositionSet(0, 100)
		err := p.readListed(document, set.AddEncoded)
		if _, ok := errors.AsType[*record.StopError](err); err != nil && !ok {
			t.Errorf("%v", err)
		}
		if string(document) == string(whole) && (err != nil || set.Len() != 3) {
			t.Errorf("%d positions, %v", set.Len(), err)
		}
	})
}
