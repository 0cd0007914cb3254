package e2e_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"golang.org/x/sync/errgroup"

	"waterwheel/e2e/check"
	"waterwheel/internal/timeseries"
)

// TestRepairsAndMetaEditsBesideCompaction adds copies of segments and of compacted buckets all the time, while a consumer
// compacts every five seconds. Repairs and edits of whole series run in turns. In the end one more repair leaves each measurement
// stored once.
func TestRepairsAndMetaEditsBesideCompaction(t *testing.T) {
	t.Parallel()
	needCompaction(t)
	s := newStream(t, 2)
	c := s.start("SEGMENTS", "on", "COMPACT_INTERVAL", "5s", "COMPACT_VISIBILITY_DELAY", "5s", "SEGMENT_RETENTION", "10s")
	load := s.startLoad(s.generator(300), 500)
	s.awaitCompacted(c, 2)
	open := bson.D{
		{Key: timeseries.PathOwner, Value: bson.D{{Key: "$exists", Value: true}}},
		{Key: timeseries.PathSegmentCompaction, Value: bson.D{{Key: "$exists", Value: false}}},
	}
	made := bson.D{{Key: timeseries.PathCompactionID, Value: bson.D{{Key: "$exists", Value: true}}}}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	documents, copied := s.collection(timeseries.BucketsSuffix), int64(0)
	var copying errgroup.Group
	var edits sync.Mutex // a copy made during an edit would have the former meta, and no repair can choose between the two
	copying.Go(func() error {
		for i := 0; ctx.Err() == nil; i++ {
			edits.Lock()
			n, err := s.copyOne(ctx, documents, []bson.D{open, made}[i%2])
			edits.Unlock()
			if err != nil && !errors.Is(err, mongo.ErrNoDocuments) && ctx.Err() == nil { // a consumer may have compacted all
				return err
			}
			copied += n
			time.Sleep(300 * time.Millisecond)
		}
		return nil
	})
	repaired, left := 0, 0
	for n, began := 0, time.Now(); time.Since(began) < 75*time.Second; n++ {
		if n%6 == 5 {
			area := map[bool]string{true: `{"$set": {"meta.area": "x"}}`, false: `{"$unset": {"meta.area": ""}}`}[n%12 == 5]
			func() {
				edits.Lock()
				defer edits.Unlock()
				s.edit("update-meta", "--yes", "--filter", `{"meta.id": {"$gte": 1}}`, "--update", area)
			}()
		}
		switch code, out := s.run("verify", "--repair", "--yes"); code {
		case 0:
			repaired++
		case 3:
			left++
			if !strings.Contains(out, "run the repair again") {
				t.Fatalf("%s", out)
			}
		default:
			t.Fatalf("the repair ends with code %d:\n%s", code, out)
		}
	}
	cancel()
	if err := copying.Wait(); err != nil {
		t.Fatal(err)
	}
	load.stop()
	s.awaitCommitted(c, time.Minute)
	t.Logf("%d measurements copied; %d repairs left nothing, %d asked for another; %s", copied, repaired, left, s.compactions(c))
	for try := 0; ; try++ { // while the last compactions run
		code, out := s.run("verify", "--repair", "--yes")
		if code == 0 {
			break
		}
		if try == 5 {
			t.Fatalf("%sthe repair ends with code %d:\n%s", check.Verdict, code, out)
		}
		time.Sleep(3 * time.Second)
	}
	if code, out := s.run("verify", "--content"); code != 0 || !strings.Contains(out, " 0 missing, 0 doubled, ") {
		t.Errorf("%sverify ends with code %d:\n%s", check.Verdict, code, out)
	} else {
		t.Log(out)
	}
	s.terminate(c)
	if code, out := s.run("verify", "--content"); code != 0 {
		t.Errorf("%sverify ends with code %d without a consumer:\n%s", check.Verdict, code, out)
	}
}
