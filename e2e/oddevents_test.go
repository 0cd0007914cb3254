package e2e_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/e2e/events"
)

// TestFramedKeysNameTheirDevices checks that a new schema of a key makes no new series. A key without JSON after its frame is a
// letter.
func TestFramedKeysNameTheirDevices(t *testing.T) {
	t.Parallel()
	s := newStream(t, 1)
	const frame = "\x00\x00\x00\x00"
	begin := time.Now().Add(-time.Hour).Truncate(time.Second)
	var made []events.Event
	for n := range 100 {
		at, schema := begin.Add(time.Duration(n)*time.Second), string(rune(1+n/50))
		made = append(made, events.Event{
			Key:   fmt.Appendf(nil, `%s%s{"device":"d%d"}`, frame, schema, n%3),
			Value: fmt.Appendf(nil, "%s\x07"+`{"time":%d,"n":%d}`, frame, at.UnixMilli(), n),
			Fate: events.Fate{Parts: []events.Part{{Reading: &events.Reading{
				Time: at.UnixMilli(), Meta: bson.D{{Key: "device", Value: fmt.Sprintf("d%d", n%3)}}, Fields: bson.D{{Key: "n", Value: int32(n)}},
			}}}},
		})
	}
	made = append(made, events.Event{
		Key: []byte(frame + "\x01\x06d-8"), Value: []byte(frame + "\x07{}"), Fate: events.Fate{Reason: "bad_meta"},
	})
	s.storesWith(made, 100, 1, "EVENT_FRAMING", "confluent", "EVENT_META_FROM", "key")
}

// TestEventsOfManyProducersAreStored has times in many formats, names that cannot be stored and are dropped, and a value that is
// not JSON, whose letter names its kind.
func TestEventsOfManyProducersAreStored(t *testing.T) {
	t.Parallel()
	s := newStream(t, 1)
	begin := time.Now().Add(-time.Hour).Truncate(time.Minute).UTC()
	var made []events.Event
	for n, layout := range []string{
		time.RFC3339, "2006-01-02T15:04:05,000Z07:00", "2006-01-02T15:04Z07:00", "20060102T150405Z", "2006-01-02 15:04:05 -0700", "20060102 1504Z0700",
	} {
		at := begin.Add(time.Duration(n) * time.Minute)
		made = append(made, events.Event{
			Value: fmt.Appendf(nil, `{"$schema":"x","ts":"%s","time":"local","meta":"m","n":%d}`, at.Format(layout), n),
			Fate: events.Fate{Parts: []events.Part{{Reading: &events.Reading{
				Time: at.UnixMilli(), Meta: "m", Fields: bson.D{{Key: "n", Value: int32(n)}},
			}}}},
		})
	}
	stored := len(made)
	odd := map[string]string{
		"{\x00}\x00":       "UTF-16",
		"\x1f\x8b\x08\x00": "gzip",
		"cpu,host=a usage=1.5 1772366400000000000":  "line protocol",
		`{"ts":1772366400,"meta":"m","x":NaN}`:      "NaN is not a JSON value",
		`{"ts":1772366400,"meta":"m"}` + "\x00":     "1 zero byte follows the JSON",
		"\x00\x00\x00\x00\x07{}":                    "EVENT_FRAMING=confluent",
		`{"ts":20210713120001,"meta":"m","$a":"x"}`: "EVENT_DROP='$a'",
		`{"ts":20210713120001,"meta":"m"}`:          "EVENT_TIME_FORMAT=20060102150405",
	}
	for value, says := range odd {
		reason := "not_json"
		switch {
		case strings.Contains(says, "EVENT_DROP"):
			reason = "bad_field_name"
		case strings.Contains(says, "EVENT_TIME_FORMAT"):
			reason = "time_out_of_range"
		}
		made = append(made, events.Event{Value: []byte(value), Fate: events.Fate{Reason: reason}})
	}
	s.storesWith(made, stored, len(odd), "EVENT_TIME_FIELD", "ts", "EVENT_DROP", "$schema,time")
	code, out := s.run("dlq", "list")
	for value, says := range odd {
		if code != 0 || !strings.Contains(out, says) {
			t.Errorf("the letter of %q does not say %q:\n%s", value, says, out)
		}
	}
}
