package e2e_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/e2e/check"
	"waterwheel/e2e/events"
)

// TestEmptyTopic checks that a consumer of a topic without records is ready, commits nothing wrong, and ends with code 0.
func TestEmptyTopic(t *testing.T) {
	t.Parallel()
	s := newStream(t, 3)
	c := s.start()
	if err := c.AwaitReady(within(t, 30*time.Second)); err != nil {
		t.Fatal(err)
	}
	s.awaitCommitted(c, 30*time.Second)
	s.terminate(c)
	if report := s.check(); report.Buckets != 0 {
		t.Errorf("%d buckets of an empty topic", report.Buckets)
	}
}

// TestOutlandishRecords checks that records no sane producer sends become letters, and the records around them are stored.
func TestOutlandishRecords(t *testing.T) {
	t.Parallel()
	const huge = 10 << 20
	s := newStream(t, 1, "max.message.bytes", fmt.Sprint(huge+huge/8))
	now := time.UnixMilli(time.Now().UnixMilli() | 1) // an odd time is sent as a number
	bad := func(reason string, value []byte) events.Event {
		return events.Event{Key: []byte("k"), Value: value, Fate: events.Fate{Reason: reason}}
	}
	reading := func(n int32) events.Event {
		return events.Of(events.Reading{Time: now.UnixMilli(), Meta: "sane", Fields: bson.D{{Key: "n", Value: n}}})
	}
	at := func(ms int64) []byte { return fmt.Appendf(nil, `{"time":%d,"meta":"when"}`, ms) }
	made := []events.Event{
		reading(1),
		bad("too_deep", bytes.Repeat([]byte("["), huge)),
		bad("too_deep", []byte(`{"time":1,"meta":"m","x":`+strings.Repeat(`{"a":`, 100_000))),
		reading(2),
		bad("empty", []byte{}),
		bad("bad_utf8", []byte("{\"time\":\"\xc3\x28\",\"meta\":\"m\"}")),
		bad("not_json", bytes.Repeat([]byte{0}, 1000)),
		bad("time_out_of_range", at(5000)),                              // 1970
		bad("time_out_of_range", at(now.UnixMicro())),                   // microseconds taken for milliseconds, which gives the year 57000
		bad("time_out_of_range", at(now.Add(48*time.Hour).UnixMilli())), // two days ahead
		reading(3),
	}
	for _, e := range made {
		s.book.Add(e)
		if err := s.producer.Send(within(t, 20*time.Second), e); err != nil {
			t.Fatal(err)
		}
	}
	c := s.start("EVENT_MAX_BYTES", "16MiB", "EVENT_TIME_FORMAT", "unix_ms")
	s.awaitCommitted(c, 40*time.Second)
	s.terminate(c)
	if report := s.check(); report.Stored != 3 || report.DeadLetterCount() != len(made)-3 {
		t.Errorf(check.Verdict+"stored %d and %d letters, want 3 and %d", report.Stored, report.DeadLetterCount(), len(made)-3)
	}
	s.wantMessage("time_out_of_range", "microseconds")
}

// wantMessage looks for a letter of a reason whose message contains a word.
func (s *stream) wantMessage(reason, word string) {
	s.t.Helper()
	ctx := within(s.t, 20*time.Second)
	topic, _, err := s.kafka.Topic(ctx, s.topic+".dlq")
	if err != nil {
		s.t.Fatal(err)
	}
	letters, err := s.kafka.Read(ctx, topic)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, l := range letters {
		if l.Headers["waterwheel.reason"] == reason && strings.Contains(l.Headers["__connect.errors.exception.message"], word) {
			return
		}
	}
	s.t.Errorf("no letter of reason %s says %q", reason, word)
}

// TestWaveformsAreStored has bursts of 8,192 samples in each event of two sensors, between events of a third, and a burst that is
// larger than EVENT_MAX_BYTES. Each burst is one field, and no document comes near MongoDB's limit.
func TestWaveformsAreStored(t *testing.T) {
	t.Parallel()
	const bursts, samples, largest = 60, 8192, 2 << 20
	s := newStream(t, 1, "max.message.bytes", fmt.Sprint(16<<20))
	begin := time.Now().Add(-time.Hour).Truncate(time.Second)
	wave := bson.A{}
	for i := range samples {
		wave = append(wave, float64(i%251)/8+0.0625)
	}
	var made []events.Event
	for n := range bursts {
		at := begin.Add(time.Duration(n) * time.Second).UnixMilli()
		made = append(made,
			events.Of(events.Reading{Time: at, Meta: fmt.Sprintf("vibration-%d", n%2), Fields: bson.D{{Key: "rms", Value: float64(n) + 0.5}, {Key: "wave", Value: wave}}}),
			events.Of(events.Reading{Time: at, Meta: "door", Fields: bson.D{{Key: "open", Value: n%2 == 0}}}))
	}
	huge := fmt.Appendf(nil, `{"time":%d,"meta":"vibration-0","wave":[%s1]}`, begin.UnixMilli(), strings.Repeat("1.5,", 300_000))
	made = append(made, events.Event{Key: []byte("k"), Value: huge, Fate: events.Fate{Reason: "too_large"}})
	s.storesWith(made, 2*bursts, 1, "EVENT_MAX_BYTES", fmt.Sprint(1<<20))
	for _, b := range s.allBuckets(0) {
		if len(b) > largest {
			t.Errorf("a document has %d bytes", len(b))
		}
	}
}
