package e2e_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"waterwheel/e2e/check"
	"waterwheel/e2e/events"
	"waterwheel/e2e/harness"
	"waterwheel/e2e/harness/proxy"
	"waterwheel/internal/timeseries"
)

// refusedBy returns the note of a measurement that must be refused with a code of MongoDB.
func refusedBy(code int32) string { return fmt.Sprintf("<refuse with %d>", code) }

// refusals returns MongoDB's codes that blame a document, with their messages.
func refusals() map[int32]string {
	return map[int32]string{
		2:     "a field's value is out of range",
		121:   "Document failed validation",
		10334: "object to insert too large",
		17419: "Resulting document after update is larger than 16777216",
		17420: "Document to upsert is larger than 16777216",
	}
}

// refuseMarked refuses writes with a measurement marked for refusal. 10334 refuses the whole command, as on a real server.
func refuseMarked(_ string, write bson.Raw) *proxy.Refusal {
	for code, message := range refusals() {
		if bytes.Contains(write, []byte(refusedBy(code))) {
			return &proxy.Refusal{Code: code, Message: message, Whole: code == 10334}
		}
	}
	return nil
}

// between puts a refuser between the consumers and the MongoDB of this run.
func between(t *testing.T) *proxy.Refuser {
	t.Helper()
	r, err := proxy.NewRefuser(world.servers.MongoURI)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

// readingStep is the time between two readings of a series. All are within one minute, so that the parts of a split refused
// bucket have the same time.
const readingStep = 100 * time.Millisecond

// numbered returns a reading of the series of a code.
func numbered(code int32, n int, note string) events.Event {
	at := time.Now().Add(-time.Hour).Truncate(time.Hour).Add(time.Duration(n) * readingStep)
	return events.Of(events.Reading{
		Time: at.UnixMilli() | 1, Meta: fmt.Sprintf("series-%d", code),
		Fields: bson.D{{Key: "n", Value: int32(n)}, {Key: "note", Value: note}},
	})
}

// marked returns the readings of one series with these numbers. Each tenth will be refused with the code.
func marked(code int32, from, to int) []events.Event {
	var made []events.Event
	for n := from; n < to; n++ {
		e := numbered(code, n, "fine")
		if n%10 == 7 {
			e = numbered(code, n, refusedBy(code))
			e.Fate = events.Fate{Reason: "refused_by_database"}
		}
		made = append(made, e)
	}
	return made
}

// markedArray returns a record of four readings from a number on. The first and the last will be refused.
func markedArray(code int32, from int) events.Event {
	array := events.Event{Fate: events.Fate{Array: true}}
	for i, note := range []string{refusedBy(code), "fine", "fine too", refusedBy(code)} {
		e := numbered(code, from+i, note)
		part := e.Fate.Parts[0]
		if note == refusedBy(code) {
			part = events.Part{Reason: "refused_by_database", Value: e.Value}
		}
		array.Key = e.Key
		array.Value = append(append(array.Value, ','), e.Value...)
		array.Fate.Parts = append(array.Fate.Parts, part)
	}
	array.Value[0] = '['
	array.Value = append(array.Value, ']')
	return array
}

// TestRefusedMeasurementsBecomeLetters has a MongoDB that refuses writes because of one measurement. It may be alone in the
// bucket's first write, or among later ones. It becomes a letter with MongoDB's code and message. The others of its bucket are
// stored once.
func TestRefusedMeasurementsBecomeLetters(t *testing.T) {
	t.Parallel()
	s, r := newStream(t, 2).inBuckets(), between(t)
	r.Obey(refuseMarked)
	send := func(of func(code int32) []events.Event) {
		t.Helper()
		for code := range refusals() {
			for _, e := range of(code) {
				if err := s.producer.Send(within(t, 20*time.Second), s.book.Add(e)); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	send(func(code int32) []events.Event { return marked(code, 0, 5) })
	c := s.start("MONGODB_URI", r.URI())
	s.awaitCommitted(c, 60*time.Second)
	send(func(code int32) []events.Event { return marked(code, 5, 8) }) // into stored buckets
	s.awaitCommitted(c, 60*time.Second)
	first := r.Refused()
	send(func(code int32) []events.Event { return append(marked(code, 8, 50), markedArray(code, 50)) })
	s.awaitCommitted(c, 60*time.Second)
	metrics, err := c.Metrics(within(t, 5*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	s.terminate(c)

	report := s.check()
	const bad, good = 5 + 2, 45 + 2 // in each series
	if n := len(refusals()); report.DeadLetters["refused_by_database"] != n*bad || report.DeadLetterCount() != n*bad || report.Stored != n*good {
		t.Errorf(check.Verdict+"want %d letters and %d stored: %s", n*bad, n*good, report)
	}
	if inserts, updates := metrics.Sum("waterwheel_writes_total", "kind", "insert", "outcome", "refused"), metrics.Sum("waterwheel_writes_total", "kind", "update", "outcome", "refused"); inserts == 0 || updates == 0 {
		t.Errorf("%v inserts and %v updates were refused, want some of each", inserts, updates)
	}
	for code, message := range refusals() {
		if first[code] == 0 || r.Refused()[code] <= first[code] {
			t.Errorf("code %d: %d refusals at first, %d in all", code, first[code], r.Refused()[code])
		}
		s.wantMessage("refused_by_database", fmt.Sprintf("code %d: ", code))
		s.wantMessage("refused_by_database", message)
	}
}

// TestRefusedSeriesHoldsUpNoOther has a MongoDB that refuses the buckets of one series, as an index on the meta may do. It
// accepts segments, whose meta is another. Only the segments of that series stay, and its next measurement becomes a letter.
// Without the index all become buckets.
func TestRefusedSeriesHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	needCompaction(t)
	s, r := newStream(t, 1), between(t)
	r.Obey(func(_ string, write bson.Raw) *proxy.Refusal {
		if meta, _ := write.Lookup(timeseries.FieldMeta).StringValueOK(); meta == "series-7" {
			return &proxy.Refusal{Code: 16766, Message: "Error: hashed indexes do not currently support array values"}
		}
		return nil
	})
	const series, each = 500, 4
	send := func(e events.Event) {
		t.Helper()
		if err := s.producer.Send(within(t, 20*time.Second), s.book.Add(e)); err != nil {
			t.Fatal(err)
		}
	}
	for code := range int32(series) {
		for n := range each {
			send(numbered(code, n, "fine"))
		}
	}
	settings := append([]string{"MONGODB_URI", r.URI()}, inSegments...)
	c := s.start(settings...)
	s.awaitCompacted(c, 1)
	open := func(ctx context.Context) int64 {
		n, err := s.collection(timeseries.BucketsSuffix).CountDocuments(ctx, bson.D{
			{Key: timeseries.PathOwner, Value: bson.D{{Key: "$exists", Value: true}}},
			{Key: timeseries.PathVisibleUntil, Value: bson.D{{Key: "$exists", Value: false}}},
		})
		if err != nil && ctx.Err() == nil {
			t.Fatal(err)
		}
		return n
	}
	for ctx := within(t, time.Minute); open(ctx) > each; time.Sleep(100 * time.Millisecond) {
		if ctx.Err() != nil {
			t.Fatalf("%d segments do not become buckets; the log:\n%s", open(t.Context()), c.Log())
		}
	}
	if n := open(t.Context()); n == 0 || r.Refused()[16766] == 0 {
		t.Errorf("%d segments are left, and %d buckets were refused", n, r.Refused()[16766])
	}
	late := numbered(7, each, "late")
	late.Fate = events.Fate{Reason: "refused_by_database"}
	send(late)
	send(numbered(8, each, "fine"))
	s.awaitCommitted(c, 60*time.Second)
	s.checkShown()
	s.terminate(c)
	s.wantMessage("refused_by_database", "code 16766: ")

	r.Obey(nil)
	c = s.start("SEGMENTS", "off", "COMPACT_VISIBILITY_DELAY", "2s", "SEGMENT_RETENTION", "1s")
	for ctx := within(t, time.Minute); s.segments(ctx) > 0; time.Sleep(100 * time.Millisecond) {
		if ctx.Err() != nil {
			t.Fatalf("%d segments are left; the log:\n%s", s.segments(t.Context()), c.Log())
		}
	}
	s.terminate(c)
	if report := s.check(); report.Stored != series*each+1 || report.DeadLetters["refused_by_database"] != 1 {
		t.Errorf(check.Verdict+"want %d stored and one letter: %s", series*each+1, report)
	}
}

// TestRefusedCollectionIsAnOutage has a server that refuses every document because a privilege is missing. This is an outage.
// Readiness reports it, nothing becomes a letter, and the stream continues when the privilege is granted.
func TestRefusedCollectionIsAnOutage(t *testing.T) {
	testOutage(t, proxy.Unauthorized())
}

// TestRefusedWritesAreAnOutage is the same with an answer that names each write, as a router of shards does.
func TestRefusedWritesAreAnOutage(t *testing.T) {
	one := proxy.Unauthorized()
	one.Whole = false
	testOutage(t, one)
}

// TestNoPrimaryIsAnOutage covers an election, during which no server accepts writes.
func TestNoPrimaryIsAnOutage(t *testing.T) {
	testOutage(t, proxy.NoPrimary())
}

// TestFullDiskIsAnOutage covers a server with a full disk, which can still be read.
func TestFullDiskIsAnOutage(t *testing.T) {
	testOutage(t, proxy.FullDisk())
}

// TestThrottlingIsAnOutage covers a server that limits requests.
func TestThrottlingIsAnOutage(t *testing.T) {
	testOutage(t, proxy.Throttled())
}

// testOutage makes MongoDB answer all writes of buckets with the refusal for a while.
func testOutage(t *testing.T, with proxy.Refusal) {
	t.Parallel()
	s, r := newStream(t, 1), between(t)
	r.Obey(proxy.AllBuckets(with))
	send := func(from, to int) {
		t.Helper()
		for n := from; n < to; n++ {
			if err := s.producer.Send(within(t, 20*time.Second), s.book.Add(numbered(with.Code, n, "fine"))); err != nil {
				t.Fatal(err)
			}
		}
	}
	send(0, 30)
	c := s.start("MONGODB_URI", r.URI())
	s.awaitTrouble(c, regexp.MustCompile(fmt.Sprintf(
		`MongoDB has been failing since \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z: writing buckets: .*%s \(code %d\)`, with.Message, with.Code)))
	send(30, 40)
	if m, err := c.Metrics(within(t, 5*time.Second)); err != nil || m.Sum("waterwheel_measurements_stored_total") != 0 || m.Sum("waterwheel_dead_letters_total") != 0 {
		t.Errorf(check.Verdict+"during the outage something was stored, or became a letter (%v)", err)
	}
	r.Obey(nil)
	end := time.Now()
	s.awaitCommitted(c, 20*time.Second)
	t.Logf("all committed %.1fs after the outage", time.Since(end).Seconds())
	if err := c.AwaitReady(within(t, 20*time.Second)); err != nil {
		t.Error(err)
	}
	s.terminate(c)
	if report := s.check(); report.Stored != 40 || report.DeadLetterCount() != 0 {
		t.Errorf(check.Verdict+"want 40 stored and no letters: %s", report)
	}
}

// awaitTrouble waits until /readyz answers 503 with a matching text.
func (s *stream) awaitTrouble(c *harness.Consumer, says *regexp.Regexp) {
	s.t.Helper()
	ctx, last := within(s.t, 40*time.Second), ""
	for ctx.Err() == nil {
		status, body, err := c.Get(ctx, "/readyz")
		if err == nil && status == http.StatusServiceUnavailable && says.MatchString(body) {
			return
		}
		if err == nil {
			last = body
		}
		select {
		case <-c.Ended():
			s.t.Fatal("the consumer ended")
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
	s.t.Fatalf("/readyz does not say %v, but %q", says, last)
}

// TestValidatorOfAServer is the same on a server with validators. A document that a validator refuses becomes a letter.
func TestValidatorOfAServer(t *testing.T) {
	t.Parallel()
	s := newStream(t, 1)
	s.needValidators()
	for _, e := range append(marked(121, 0, 50), markedArray(121, 50)) {
		if err := s.producer.Send(within(t, 20*time.Second), s.book.Add(e)); err != nil {
			t.Fatal(err)
		}
	}
	c := s.start()
	s.awaitCommitted(c, 60*time.Second)
	s.terminate(c)
	if report := s.check(); report.DeadLetters["refused_by_database"] != 7 || report.Stored != 47 {
		t.Errorf(check.Verdict+"want 7 letters and 47 stored: %s", report)
	}
	s.wantMessage("refused_by_database", "code 121: ")
}

// needValidators gives the collection of buckets a validator that refuses marked documents. It skips the test on a server without
// validators.
func (s *stream) needValidators() {
	s.t.Helper()
	ctx := within(s.t, 20*time.Second)
	client, err := mongo.Connect(options.Client().ApplyURI(world.servers.MongoURI))
	if err != nil {
		s.t.Fatal(err)
	}
	defer client.Disconnect(context.WithoutCancel(ctx))
	database := client.Database(s.database)
	validator := bson.D{{Key: "control.max.note", Value: bson.D{{Key: "$ne", Value: refusedBy(121)}}}, {Key: "control.min.note", Value: bson.D{{Key: "$ne", Value: refusedBy(121)}}}}
	if err := database.CreateCollection(ctx, s.topic+".buckets", options.CreateCollection().SetValidator(validator)); err != nil {
		if refused, ok := errors.AsType[mongo.CommandError](err); ok && refused.HasErrorCode(238) {
			s.t.Skip("the MongoDB has no validators") // NotImplemented
		}
		s.t.Fatal(err)
	}
	bad := bson.D{{Key: "control", Value: bson.D{{Key: "max", Value: bson.D{{Key: "note", Value: refusedBy(121)}}}}}}
	inserted, err := database.Collection(s.topic+".buckets").InsertOne(ctx, bad)
	var refused mongo.WriteException
	switch {
	case errors.As(err, &refused) && refused.HasErrorCode(121):
	case err != nil:
		s.t.Fatal(err)
	default:
		if _, err := database.Collection(s.topic+".buckets").DeleteOne(ctx, bson.D{{Key: "_id", Value: inserted.InsertedID}}); err != nil {
			s.t.Fatal(err)
		}
		s.t.Skip("the MongoDB takes a validator and does not ask it")
	}
}
