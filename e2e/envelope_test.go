package e2e_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/e2e/check"
	"waterwheel/e2e/events"
)

// redriven redrives all letters, and returns the records of the topic. These are the produced ones and the redriven ones.
func (s *stream) redriven(produced, letters int) []check.Record {
	s.t.Helper()
	if code, out := s.run("dlq", "redrive", "--yes"); code != 0 {
		s.t.Fatalf("redrive ended with code %d:\n%s", code, out)
	}
	topic, _, err := s.kafka.Topic(within(s.t, 10*time.Second), s.topic)
	if err != nil {
		s.t.Fatal(err)
	}
	records, err := s.kafka.Read(within(s.t, 20*time.Second), topic)
	if err != nil || len(records) != produced+letters {
		s.t.Fatalf("%d records are there after %d and %d letters: %v", len(records), produced, letters, err)
	}
	return records
}

// storesWith sends events and stores them with settings. The checker and the program's own verify compare the stored data with
// the expectations. verify must decode with the same settings.
func (s *stream) storesWith(made []events.Event, measurements, letters int, pairs ...string) {
	s.t.Helper()
	for _, e := range made {
		s.book.Add(e)
	}
	if err := s.producer.Send(within(s.t, 30*time.Second), made...); err != nil {
		s.t.Fatal(err)
	}
	s.settings = s.settings.With("EVENT_MAX_BYTES", fmt.Sprint(maxEventBytes)).With(pairs...)
	c := s.start()
	s.awaitCommitted(c, 60*time.Second)
	s.terminate(c)
	if report := s.check(); report.Stored != measurements || report.DeadLetterCount() != letters {
		s.t.Errorf(check.Verdict+"stored %d and %d letters, want %d and %d", report.Stored, report.DeadLetterCount(), measurements, letters)
	}
	code, out := s.run("verify", "--content")
	if want := fmt.Sprintf("%d stored once", measurements); code != 0 || !strings.Contains(out, want) {
		s.t.Errorf(check.Verdict+"verify ended with code %d, without %q:\n%s", code, want, out)
	}
}

// TestTelegrafEventsAreStored has a meta of two fields, one of them an object, and the fields in an object of their own.
func TestTelegrafEventsAreStored(t *testing.T) {
	t.Parallel()
	s := newStream(t, 2)
	const number, hosts = 2000, 7
	begin := time.Now().Add(-time.Hour).Truncate(time.Second)
	var made []events.Event
	for i := range number {
		at, host := begin.Add(time.Duration(i)*time.Second), fmt.Sprintf("h%d", i%hosts)
		made = append(made, events.Event{
			Key: []byte(host),
			Value: fmt.Appendf(nil, `{"fields":{"usage":%d.5,"n":%d},"name":"cpu","tags":{"host":"%s","cpu":"all"},"timestamp":%d}`,
				i%100, i, host, at.Unix()),
			Fate: events.Fate{Parts: []events.Part{{Reading: &events.Reading{
				Time:   at.UnixMilli(),
				Meta:   bson.D{{Key: "name", Value: "cpu"}, {Key: "tags", Value: bson.D{{Key: "cpu", Value: "all"}, {Key: "host", Value: host}}}},
				Fields: bson.D{{Key: "usage", Value: float64(i%100) + 0.5}, {Key: "n", Value: int32(i)}},
			}}}},
		})
	}
	s.storesWith(made, number, 0, "EVENT_TIME_FIELD", "timestamp", "EVENT_META_FIELDS", "name,tags", "EVENT_FIELDS", "fields")

	code, out := s.run("verify", "--content") // with settings that make other measurements of the same events
	if code != 0 {
		t.Errorf("verify ended with code %d:\n%s", code, out)
	}
	s.settings = s.settings.With("EVENT_DROP", "fields.n")
	if code, out = s.run("verify", "--content"); code != 3 {
		t.Errorf(check.Verdict+"verify by other settings ended with code %d, want 3:\n%s", code, out)
	}
}

// TestLettersGoBackOnceTheirCauseIsGone has a producer that renamed the field of the time. The good events around are stored. With
// a setting for both names, a dry run tells which letters would fail again, and the others are stored once.
func TestLettersGoBackOnceTheirCauseIsGone(t *testing.T) {
	t.Parallel()
	s := newStream(t, 2)
	begin := time.Now().Add(-time.Hour).UnixMilli()
	var made []events.Event
	for n := range 200 {
		reading := events.Reading{Time: begin + int64(n), Meta: "m", Fields: bson.D{{Key: "n", Value: int32(n)}}}
		e := events.Of(reading)
		switch {
		case n%100 == 50:
			e = events.Event{Key: e.Key, Value: fmt.Appendf(nil, `{"at":%d,"meta":"m","n":%d}`, reading.Time, n), Fate: events.Fate{Reason: "missing_time"}}
		case n%10 == 0:
			e = events.Event{Key: e.Key, Value: fmt.Appendf(nil, `{"ts":%d,"meta":"m","n":%d}`, reading.Time, n), Fate: events.Fate{Reason: "missing_time"}}
		}
		made = append(made, e)
	}
	s.storesWith(made, 180, 20)
	s.settings = s.settings.With("EVENT_TIME_FIELD", "time|ts")
	code, out := s.run("dlq", "redrive", "--reason", "missing_time", "--dry-run")
	if says := "2   of these would become dead letters again"; code != 0 || !strings.Contains(out, says) {
		t.Errorf("the dry run ended with code %d, without %q:\n%s", code, says, out)
	}
	s.redriven(len(made), 20)
	c := s.start()
	s.awaitCommitted(c, 60*time.Second)
	s.terminate(c)
	s.verify(t, 180+18)
}

// TestFramedChangesOfRowsAreStored has an envelope after the frame of a schema registry, deleted rows, and a letter for a part of
// a record. The redrive of this letter restores its frame.
func TestFramedChangesOfRowsAreStored(t *testing.T) {
	t.Parallel()
	s := newStream(t, 1)
	const frame = "\x00\x00\x00\x00\x2a"
	begin := time.Now().Add(-time.Hour).Truncate(time.Second)
	row := func(n int) string {
		return fmt.Sprintf(`{"payload":{"before":null,"after":{"sensor":"s%d","n":%d,"note":"x"},"source":{"table":"air"},"op":"c","ts_ms":%d}}`,
			n%3, n, begin.Add(time.Duration(n)*time.Second).UnixMilli())
	}
	reading := func(n int) events.Part {
		return events.Part{Reading: &events.Reading{
			Time:   begin.Add(time.Duration(n) * time.Second).UnixMilli(),
			Meta:   bson.D{{Key: "id", Value: fmt.Sprintf("s%d", n%3)}, {Key: "table", Value: "air"}},
			Fields: bson.D{{Key: "n", Value: int32(n)}},
		}}
	}
	var made []events.Event
	for n := range 100 {
		made = append(made,
			events.Event{Key: []byte("k"), Value: []byte(frame + row(n)), Fate: events.Fate{Parts: []events.Part{reading(n)}}},
			events.Event{Key: []byte("k"), Value: []byte(frame + `{"payload":{"before":{"n":1},"after":null,"op":"d"}}`)})
	}
	made = append(made,
		events.Event{Key: []byte("k"), Value: []byte(frame + "[" + row(200) + ", 7]"), Fate: events.Fate{
			Array: true, Parts: []events.Part{reading(200), {Reason: "not_object", Value: []byte(frame + "7")}},
		}},
		events.Event{Key: []byte("k"), Value: []byte(row(201)), Fate: events.Fate{Reason: "not_json"}})
	s.storesWith(made, 101, 2, "EVENT_FRAMING", "confluent", "EVENT_ROOT", "payload.after", "EVENT_TIME_FIELD", "/payload.ts_ms",
		"EVENT_META_FIELDS", "id=sensor,/payload.source.table", "EVENT_DROP", "note")
	records := s.redriven(len(made), 2)
	if got, want := string(records[len(made)].Value), frame+"7"; got != want {
		t.Errorf("what went back of the array is %q, want %q", got, want)
	}
	if got, want := string(records[len(made)+1].Value), row(201); got != want {
		t.Errorf("what went back of the record without a frame is %q, want %q", got, want)
	}
	code, out := s.run("dlq", "redrive", "--yes")
	if code != 0 {
		t.Errorf("a second redrive ended with code %d:\n%s", code, out)
	}
	c := s.start("EVENT_FRAMING", "none") // as if the frame had been a mistake, so the record without one is stored
	s.awaitCommitted(c, 60*time.Second)
	s.terminate(c)
	if n := s.measurements(); n != 102 {
		t.Errorf(check.Verdict+"%d measurements are stored, want 102", n)
	}
}
