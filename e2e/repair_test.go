package e2e_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"waterwheel/internal/timeseries"
)

// TestRepairTakesDoublesOut checks that `verify` finds added copies of a compacted bucket and of a segment, and removes them on
// request. Afterwards everything is as before.
func TestRepairTakesDoublesOut(t *testing.T) {
	t.Parallel()
	needCompaction(t)
	s := newStream(t, 2)
	s.storing(t, 300, "SEGMENTS", "on", "COMPACT_INTERVAL", "1h")
	c := s.start("SEGMENTS", "off", "COMPACT_VISIBILITY_DELAY", "2s", "SEGMENT_RETENTION", "1s")
	for ctx := within(t, 2*time.Minute); s.segments(ctx) > 0; time.Sleep(200 * time.Millisecond) {
		if ctx.Err() != nil {
			t.Fatal("segments are left")
		}
	}
	s.terminate(c)
	s.storing(t, 300, "SEGMENTS", "on", "COMPACT_INTERVAL", "1h")
	s.checkRead()
	stored := s.check().Valid
	if code, out := s.run("collection", "show"); code != 0 || !strings.Contains(out, "measurements that are not in buckets yet") {
		t.Errorf("collection show ends with code %d, and does not tell of segments:\n%s", code, out)
	}

	copied := s.double(bson.D{{Key: timeseries.PathOwner, Value: bson.D{{Key: "$exists", Value: false}}}})
	copied += s.double(bson.D{{Key: timeseries.PathOwner, Value: bson.D{{Key: "$exists", Value: true}}}})
	if code, out := s.run("verify"); code != 3 || !strings.Contains(out, "doubled") {
		t.Fatalf("%d measurements are doubled, and verify ends with code %d:\n%s", copied, code, out)
	}
	if code, out := s.run("verify", "--repair", "--dry-run"); code != 3 || s.doubled() == 0 {
		t.Errorf("the dry run ends with code %d, and %d are doubled:\n%s", code, s.doubled(), out)
	}
	_, out := s.run("verify", "--repair", "--yes")
	t.Log(out)
	if code, out := s.run("verify", "--content"); code != 0 {
		t.Errorf("verify ends with code %d after the repair:\n%s", code, out)
	}
	s.checkRead()
	if now := s.check().Valid; now != stored {
		t.Errorf("%d measurements are stored, %d were before the repair", now, stored)
	}
}

// double stores a copy of one document that matches a filter, and returns its number of measurements.
func (s *stream) double(filter bson.D) int64 {
	s.t.Helper()
	n, err := s.copyOne(within(s.t, 20*time.Second), s.collection(timeseries.BucketsSuffix), filter)
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

// copyOne is double for use outside of the test's goroutine.
func (s *stream) copyOne(ctx context.Context, documents *mongo.Collection, filter bson.D) (int64, error) {
	var document bson.D
	if err := documents.FindOne(ctx, filter).Decode(&document); err != nil {
		return 0, err
	}
	before, id := document[0].Value.(bson.ObjectID), bson.NewObjectID()
	document[0].Value = id
	for i := range document {
		if meta, ok := document[i].Value.(bson.Binary); ok && document[i].Key == "meta" && meta.Equal(segmentMeta(before)) {
			document[i].Value = segmentMeta(id)
		}
	}
	raw, err := bson.Marshal(document)
	if err == nil {
		_, err = documents.InsertOne(ctx, bson.Raw(raw))
	}
	if err != nil {
		return 0, err
	}
	return bson.Raw(raw).Lookup(timeseries.FieldControl, timeseries.FieldCount).AsInt64(), nil
}

// doubled returns the number of measurements that a reader finds more than once.
func (s *stream) doubled() (n int) {
	s.t.Helper()
	for _, times := range s.found() {
		if times > 1 {
			n++
		}
	}
	return n
}
