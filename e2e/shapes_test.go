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

// TestReadingsInListsAreStoredOnce has readings in lists within texts, several texts in a record, a skipped event, and a reading
// whose letter is redriven by itself. A restart that reads everything again recognises each of them.
func TestReadingsInListsAreStoredOnce(t *testing.T) {
	t.Parallel()
	s := newStream(t, 2)
	begin := time.Now().Add(-time.Hour).Truncate(time.Second)
	at := func(n int) int64 { return begin.Add(time.Duration(n) * time.Second).UnixMilli() }
	list := func(device string, readings ...string) string {
		return fmt.Sprintf(`{"device":"%s","body":%q}`, device, `{"readings":[`+strings.Join(readings, ",")+`]}`)
	}
	reading := func(n int) string { return fmt.Sprintf(`{"ts":%d,"name":"n%d","value":"%d"}`, at(n), n%2, n) }
	part := func(device string, n int) events.Part {
		return events.Part{Reading: &events.Reading{
			Time: at(n), Meta: bson.D{{Key: "device", Value: device}},
			Fields: bson.D{{Key: fmt.Sprintf("n%d", n%2), Value: int32(n)}},
		}}
	}
	var made []events.Event
	stored := 0
	for n := 0; n < 600; n += 3 {
		device := fmt.Sprintf("d%d", n%5)
		made = append(made, events.Event{Key: []byte(device), Value: []byte(list(device, reading(n), reading(n+1)) + "\n" + list(device, reading(n+2))), Fate: events.Fate{
			Array: true, Parts: []events.Part{part(device, n), part(device, n+1), part(device, n+2)},
		}})
		stored += 3
	}
	const bad = `{"device":"d1","body":{"readings":[{"ts":"noon","name":"n","value":"1"}]}}`
	made = append(made,
		events.Event{Key: []byte("d1"), Value: []byte(list("d1", reading(900), `{"ts":"noon","name":"n","value":"1"}`, reading(901))), Fate: events.Fate{
			Array: true, Parts: []events.Part{part("d1", 900), {Reason: "bad_time", Value: []byte(bad)}, part("d1", 901)},
		}},
		events.Event{Key: []byte("d1"), Value: []byte(`{"device":"d1","join":true}`)})
	stored += 2
	s.storesWith(made, stored, 1, "EVENT_PARSE", "body", "EVENT_LIST", "body.readings", "EVENT_SKIP", "join=true,!body.readings", "EVENT_TIME_FIELD", "time|ts",
		"EVENT_META_FIELDS", "device", "EVENT_FIELD_NAME", "name", "EVENT_FIELD_VALUE", "value", "EVENT_NUMBERS", "text")
	records := s.redriven(len(made), 1)
	found := 0
	for _, r := range records {
		if string(r.Value) == bad {
			found++
		}
	}
	if found != 1 {
		t.Errorf("what went back is not %s", bad)
	}
	s.resetTo(false)
	c := s.start()
	s.awaitCommitted(c, 60*time.Second)
	s.terminate(c)
	if n := s.measurements(); n != int64(stored) {
		t.Errorf(check.Verdict+"%d measurements are stored after reading again, want %d", n, stored)
	}
}
