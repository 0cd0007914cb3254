package e2e_test

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/e2e/check"
	"waterwheel/e2e/events"
	"waterwheel/e2e/harness"
)

// registryPassword is the password of the registry in these tests.
const registryPassword = "let-me-read-schemas"

// newRegistry starts a schema registry that asks for a password.
func newRegistry(t *testing.T) *harness.Registry {
	t.Helper()
	r, err := harness.StartRegistry()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Kill)
	r.User, r.Password = "reader", registryPassword
	return r
}

// framed returns a reading after the frame of a schema. Schema 1 has sensor, at and n. Schema 2 also has a state, whose type is
// in another schema.
func framed(id uint32, at time.Time, n int) events.Event {
	value := binary.BigEndian.AppendUint32([]byte{0}, id)
	sensor := fmt.Sprintf("s-%d", n%5)
	value = append(binary.AppendVarint(value, int64(len(sensor))), sensor...)
	value = binary.AppendVarint(value, at.UnixMilli())
	value = binary.LittleEndian.AppendUint64(value, math.Float64bits(float64(n)+0.5))
	fields := bson.D{{Key: "celsius", Value: float64(n) + 0.5}}
	if id == 2 {
		value, fields = append(value, 2), append(fields, bson.E{Key: "state", Value: "ON"})
	}
	return events.Event{Key: []byte(sensor), Value: value, Fate: events.Fate{Parts: []events.Part{{Reading: &events.Reading{
		Time: at.UnixMilli(), Meta: bson.D{{Key: "sensor", Value: sensor}}, Fields: fields,
	}}}}}
}

// TestAvroOfARegistryIsStored has events of two schemas, one of which uses a type of another. Known schemas need no registry. Ids
// that the registry does not have become letters.
func TestAvroOfARegistryIsStored(t *testing.T) {
	t.Parallel()
	s, r := newStream(t, 2), newRegistry(t)
	const reading = `{"type":"record","name":"Reading","fields":[{"name":"sensor","type":"string"},{"name":"at","type":{"type":"long","logicalType":"timestamp-millis"}},{"name":"celsius","type":"double"}%s]}`
	r.Put("AVRO", "/schemas/ids/1", fmt.Sprintf(reading, ""))
	r.Put("AVRO", "/schemas/ids/2", fmt.Sprintf(reading, `,{"name":"state","type":"plant.State"}`), map[string]any{"name": "plant.State", "subject": "plant.State", "version": 3})
	r.Put("AVRO", "/subjects/plant.State/versions/3", `{"type":"enum","name":"State","namespace":"plant","symbols":["OFF","ON"]}`)
	s.settings = s.settings.With("EVENT_FORMAT", "avro", "EVENT_TIME_FIELD", "at", "EVENT_META_FIELDS", "sensor")
	s.storesByRegistry(r, framed)
}

// storesByRegistry stores events of schemas 1 and 2, each once. The registry is unavailable before each schema is known, and a
// consumer is killed in between. The registry does not have schema 9.
func (s *stream) storesByRegistry(r *harness.Registry, framed func(id uint32, at time.Time, n int) events.Event) {
	t := s.t
	t.Helper()
	s.settings = s.settings.With("SCHEMA_REGISTRY_URL", r.URL, "SCHEMA_REGISTRY_USERNAME", "reader", "SCHEMA_REGISTRY_PASSWORD", registryPassword, "SCHEMA_UNKNOWN_WAIT", "2s")
	begin, sent := time.Now().Add(-time.Hour).Truncate(time.Second), 0
	send := func(id uint32, n int) {
		t.Helper()
		var made []events.Event
		for range n {
			made = append(made, s.book.Add(framed(id, begin.Add(time.Duration(sent)*time.Second), sent)))
			sent++
		}
		if err := s.producer.Send(within(t, 30*time.Second), made...); err != nil {
			t.Fatal(err)
		}
	}

	r.Away(true)
	send(1, 300)
	c := s.start()
	s.awaitNotReady(c, "the schema registry has been failing since", "reading a schema", "503")
	if _, body, err := c.Get(within(t, 5*time.Second), "/api/status"); err != nil || !strings.Contains(body, "the schema of the next record is not known yet") {
		t.Errorf("the status does not say what is waited for: %v\n%s", err, body)
	}
	if code, out := s.run("check", "--sample", "10"); code != 3 || !strings.Contains(out, "schema registry") || !strings.Contains(out, "503") {
		t.Errorf("check ended with code %d, and does not say that the registry is away:\n%s", code, out)
	}
	r.Away(false)
	s.awaitCommitted(c, time.Minute)

	r.Away(true)
	send(1, 100)
	s.awaitCommitted(c, time.Minute)
	send(2, 300)
	s.awaitNotReady(c, "the schema registry has been failing since")
	metrics, err := c.Metrics(within(t, 5*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	if waits, letters := metrics.Sum("waterwheel_schema_wait_seconds"), metrics.Sum("waterwheel_dead_letters_total"); waits == 0 || letters != 0 || metrics.Sum("waterwheel_schema_requests_total", "result", "failed") == 0 {
		t.Errorf("%v s waited, %v letters", waits, letters)
	}
	c.Kill()
	logs := c.Log()
	c = s.start()
	s.awaitNotReady(c, "the schema registry has been failing since")
	r.Away(false)
	s.awaitCommitted(c, time.Minute)

	value := []byte("\x00\x00\x00\x00\x09\x02")
	unknown := s.book.Add(events.Event{Key: []byte("k"), Value: value, Fate: events.Fate{Reason: "unknown_schema"}})
	if err := s.producer.Send(within(t, 30*time.Second), unknown); err != nil {
		t.Fatal(err)
	}
	send(2, 50)
	s.awaitCommitted(c, time.Minute)
	s.terminate(c)
	if strings.Contains(logs+c.Log(), registryPassword) {
		t.Error("the log has the registry's password")
	}
	if report := s.check(); report.Stored != sent || report.DeadLetterCount() != 1 {
		t.Errorf(check.Verdict+"stored %d and %d letters, want %d and 1", report.Stored, report.DeadLetterCount(), sent)
	}
	for path, n := range r.Asked() {
		if n > 12 && !strings.HasSuffix(path, "/9") {
			t.Errorf("%s was asked for %d times", path, n)
		}
	}
	s.judgedByCommands(r, sent)
}

// judgedByCommands checks that verify and dlq read events with the schemas of the registry, and report an unavailable registry.
func (s *stream) judgedByCommands(r *harness.Registry, stored int) {
	s.t.Helper()
	code, out := s.run("verify", "--content")
	if want := fmt.Sprintf("%d stored once", stored); code != 0 || !strings.Contains(out, want) {
		s.t.Errorf(check.Verdict+"verify ended with code %d, without %q:\n%s", code, want, out)
	}
	code, out = s.run("dlq", "list", "--output", "json")
	var row struct {
		DeadLetter string `json:"letter"`
	}
	if err := json.Unmarshal([]byte(strings.Split(out, "\n")[0]), &row); code != 0 || err != nil {
		s.t.Fatalf("dlq list ended with code %d, %v in %s", code, err, out)
	}
	if code, out = s.run("dlq", "show", row.DeadLetter); code != 0 || !strings.Contains(out, "the registry has no schema with this id") {
		s.t.Errorf("dlq show ended with code %d, without what the registry says:\n%s", code, out)
	}
	r.Away(true)
	if code, out = s.run("verify"); code != 1 || !strings.Contains(out, "asking the schema registry") {
		s.t.Errorf("while the registry is away verify ended with code %d:\n%s", code, out)
	}
	if code, out = s.run("dlq", "show", row.DeadLetter); code != 0 || !strings.Contains(out, "unknown: the schema 9 cannot be read now") {
		s.t.Errorf("while the registry is away dlq show ended with code %d:\n%s", code, out)
	}
	if code, out = s.run("dlq", "redrive", "--dry-run"); code != 1 || !strings.Contains(out, "not all dead letters could be checked") {
		s.t.Errorf("while the registry is away dlq redrive --dry-run ended with code %d:\n%s", code, out)
	}
	r.Away(false)
	if code, out = s.run("check", "--sample", "1000"); !strings.Contains(out, "schema registry") || !strings.Contains(out, r.URL+" answers") || !strings.Contains(out, fmt.Sprintf("%d measurements", stored)) {
		s.t.Errorf("check ended with code %d:\n%s", code, out)
	}
}
