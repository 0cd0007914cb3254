package e2e_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/e2e/check"
	"waterwheel/e2e/harness"
)

// badCaseSeries is the number of series in the streams of bad cases. It is small, so that buckets hold several measurements.
const badCaseSeries = 10

// TestResetStoresOnlyWhatIsMissing resets the group's offsets back and forward with Kafka's tool. Every stored measurement is
// skipped. A reset back stores the records that a reset forward has skipped.
func TestResetStoresOnlyWhatIsMissing(t *testing.T) {
	t.Parallel()
	s := newStream(t, 2)
	s.storing(t, 300)
	stored := s.measurements()
	s.sending(t, 200)
	s.resetTo(true)
	c := s.start()
	if err := c.AwaitReady(within(t, 30*time.Second)); err != nil {
		t.Fatal(err)
	}
	s.awaitCommitted(c, 60*time.Second)
	s.terminate(c)
	if n := s.measurements(); n != stored {
		t.Errorf(check.Verdict+"%d measurements after a reset to the end, %d before", n, stored)
	}
	for range 2 { // the second time nothing is missing
		s.resetTo(false)
		c = s.start()
		s.awaitCommitted(c, 60*time.Second)
		if n := int64(s.replayed(c)); n != stored {
			t.Errorf(check.Verdict+"%d measurements were recognised, %d are stored", n, stored)
		}
		s.terminate(c)
		if line := lastLine(c, "msg=stopped"); !strings.Contains(line, fmt.Sprintf("recognised_in_all=%d ", stored)) {
			t.Errorf("%d measurements were recognised, and the last words are %q", stored, line)
		}
		stored = s.measurements()
	}
	s.check()
}

// TestDeletedOffsetsDoNotStartAnew checks that without committed offsets the partition documents give the start, for any
// KAFKA_START.
func TestDeletedOffsetsDoNotStartAnew(t *testing.T) {
	for _, whole := range []bool{false, true} {
		t.Run(fmt.Sprintf("whole group %v", whole), func(t *testing.T) {
			t.Parallel()
			s := newStream(t, 2)
			s.storing(t, 200)
			stored := s.measurements()
			s.deleteOffsets(whole)
			s.sending(t, 100)
			c := s.start("KAFKA_START", "latest")
			s.awaitCommitted(c, 60*time.Second)
			if n := int64(s.replayed(c)); n != stored {
				t.Errorf(check.Verdict+"%d measurements were recognised, %d are stored", n, stored)
			}
			s.terminate(c)
			s.check()
		})
	}
}

// TestDeletedPartitionDocuments has an operator who deletes them. The first time a consumer is writing, and is then killed. The
// second time no consumer runs.
func TestDeletedPartitionDocuments(t *testing.T) {
	t.Parallel()
	s := newStream(t, 2)
	rate := 500
	if world.servers.Slow() {
		rate = 80
	}
	partitions := s.collection(".partitions")
	storing := func() *harness.Consumer { // one partition may store long before the other one is claimed
		t.Helper()
		c := s.start()
		s.awaitStored(c, time.Minute)
		for ctx, claimed := within(t, time.Minute), int64(0); claimed != 2; time.Sleep(20 * time.Millisecond) {
			var err error
			if claimed, err = partitions.CountDocuments(ctx, bson.D{}); err != nil {
				t.Fatalf("waiting for the claims of both partitions: %v", err)
			}
		}
		return c
	}
	forget := func() {
		t.Helper()
		gone, err := partitions.DeleteMany(within(t, 20*time.Second), bson.D{})
		if err != nil || gone.DeletedCount != 2 {
			t.Fatalf("%+v, %v", gone, err)
		}
	}
	load := s.startLoad(s.generator(badCaseSeries), rate)
	c := storing()
	forget()
	c.Kill()
	c = storing()
	s.terminate(c)
	forget()
	c = storing()
	load.stop()
	s.awaitCommitted(c, 90*time.Second)
	s.terminate(c)
	s.check()
}

// TestHandMadeBucketsAreLeftAlone has buckets without source in the collection, with the same series and time.
func TestHandMadeBucketsAreLeftAlone(t *testing.T) {
	t.Parallel()
	s := newStream(t, 1)
	s.storing(t, 100)
	var made []bson.Raw
	for i, b := range s.allBuckets(0) {
		var d bson.D
		if err := bson.Unmarshal(b, &d); err != nil {
			t.Fatal(err)
		}
		id := d[0].Value.(bson.ObjectID)
		id[11] ^= 0xff
		d[0].Value = id
		for j, field := range d {
			if field.Key == "control" {
				d[j].Value = slices.DeleteFunc(field.Value.(bson.D), func(e bson.E) bool {
					return e.Key == "source" || e.Key == "closed" && i%2 == 0
				})
			}
		}
		raw, err := bson.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		made = append(made, raw)
	}
	if _, err := s.collection(".buckets").InsertMany(within(t, 20*time.Second), made); err != nil {
		t.Fatal(err)
	}
	s.storing(t, 100)
	s.resetTo(false)
	s.catchUp()
	for _, b := range made {
		if now := s.bucket(b.Lookup("_id")); !bytes.Equal(now, b) {
			t.Errorf(check.Verdict+"a bucket without source was changed:\n%v\n%v", b, now)
		}
	}
	gone, err := s.collection(".buckets").DeleteMany(within(t, 20*time.Second), bson.D{{Key: "control.source", Value: bson.D{{Key: "$exists", Value: false}}}})
	if err != nil || int(gone.DeletedCount) != len(made) {
		t.Fatalf("%+v of %d, %v", gone, len(made), err)
	}
	s.check()
}

// TestDamagedOffsets checks that a bucket with unreadable positions stops its partition when they are needed, and only then.
func TestDamagedOffsets(t *testing.T) {
	t.Parallel()
	s := newStream(t, 2)
	s.storing(t, 200)
	whole := s.allBuckets(0)[0]
	id := whole.Lookup("_id")
	damage := bson.D{{Key: "$set", Value: bson.D{{Key: "control.source.offsets", Value: bson.A{bson.Binary{Data: []byte{0x80}}}}}}}
	if _, err := s.collection(".buckets").UpdateByID(within(t, 10*time.Second), id, damage); err != nil {
		t.Fatal(err)
	}
	damaged := s.bucket(id)

	s.storing(t, 100) // its offsets are below the committed one
	if now := s.bucket(id); !bytes.Equal(now, damaged) {
		t.Errorf(check.Verdict+"the damaged bucket was written to:\n%v\n%v", damaged, now)
	}

	s.resetTo(false)
	c := s.start()
	s.awaitNotReady(c, "reading has stopped (damaged_bucket)", id.ObjectID().Hex(), "delete the bucket")
	s.terminate(c)

	// The remedy is to delete the bucket. Measurements that only this bucket held are stored again.
	if _, err := s.collection(".buckets").DeleteOne(within(t, 10*time.Second), bson.D{{Key: "_id", Value: id}}); err != nil {
		t.Fatal(err)
	}
	s.resetTo(false) // partition 1 has continued
	s.catchUp()
	s.check()
}

// TestTwoCollectionsUnderOneGroup checks that a second pipeline with the group id of another one stops, until it is told to start
// anew.
func TestTwoCollectionsUnderOneGroup(t *testing.T) {
	t.Parallel()
	s := newStream(t, 2)
	s.storing(t, 100)
	first := s.database
	second := first[1:] + "2"
	c := s.start("MONGODB_DATABASE", second)
	s.awaitNotReady(c, "(other_collection)", first+"."+s.topic, second+"."+s.topic, "--reset-offsets")
	s.terminate(c)
	t.Cleanup(func() {
		if err := world.servers.DropDatabase(context.WithoutCancel(t.Context()), second); err != nil {
			t.Error(err)
		}
	})
	s.resetTo(false)
	s.catchUp("MONGODB_DATABASE", second)
	s.check() // the first collection is unchanged
	s.database = second
	s.check()
}

// TestCommittedOffsetBeyondTheLog checks a partition whose committed offset is beyond the end of the log. It stops by default,
// and starts anew if KAFKA_OUT_OF_RANGE says so.
func TestCommittedOffsetBeyondTheLog(t *testing.T) {
	t.Parallel()
	s := newStream(t, 2)
	s.storing(t, 200)
	_, ends := s.described()
	s.commit([]int64{ends[0] + 1000, ends[1]})
	s.sending(t, 100)
	c := s.start()
	s.awaitNotReady(c, "reading has stopped (offset_out_of_range)", fmt.Sprint(ends[0]+1000), "KAFKA_OUT_OF_RANGE")
	s.terminate(c)
	if committed := s.committed(); committed[0] != ends[0]+1000 {
		t.Errorf("the stopped partition committed %d", committed[0])
	}
	s.catchUp("KAFKA_OUT_OF_RANGE", "earliest")
	s.check()
}

// TestCommittedOffsetBeforeTheLog has a retention that is faster than the consumer. The consumer continues at the beginning of
// the log, and counts the lost records.
func TestCommittedOffsetBeforeTheLog(t *testing.T) {
	t.Parallel()
	s := newStream(t, 1)
	s.sending(t, 200)
	s.commit([]int64{10})
	s.deleteRecords(50)
	c := s.start()
	s.awaitCommitted(c, 60*time.Second)
	metrics, err := c.Metrics(within(t, 5*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	if lost := metrics.Sum("waterwheel_records_expired_total"); lost != 40 {
		t.Errorf("%v records were counted as lost, 40 were", lost)
	}
	if status, body, err := c.Get(within(t, 5*time.Second), "/readyz"); err != nil || status != 200 ||
		!strings.Contains(body, "retention deleted records before they were read, within the last hour: "+s.topic+"/0 from 10 to 49") {
		t.Errorf("/readyz: %d, %v:\n%s", status, err, body)
	}
	if line := lastLine(c, "from=10 log_start=50 records=40"); !strings.Contains(line, "level=WARN") {
		t.Errorf("the lost records are told by %q", line)
	}
	s.terminate(c)
	s.check()
	code, out := s.run("verify")
	if code != 3 || !strings.Contains(out, "lost: retention deleted 40 offsets") || !strings.Contains(out, "10–49") {
		t.Errorf("verify: code %d\n%s", code, out)
	}
	if code, out := s.run("verify", "--from", "50"); code != 0 || strings.Contains(out, "lost") {
		t.Errorf("verify from the log's start on: code %d\n%s", code, out)
	}
}

// TestWriteConcernOfTheURIIsNotUsed checks that writes wait for the majority, no matter what MONGODB_URI asks for, even something
// the server does not support.
func TestWriteConcernOfTheURIIsNotUsed(t *testing.T) {
	t.Parallel()
	s := newStream(t, 1)
	uri, query, _ := strings.Cut(world.servers.MongoURI, "?")
	if strings.Count(uri, "/") == 2 { // only the two of mongodb://
		uri += "/"
	}
	s.storing(t, 50, "MONGODB_URI", uri+"?w=7&journal=false&readPreference=secondaryPreferred&retryWrites=true&"+query)
	s.check()
}
