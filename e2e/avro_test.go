package e2e_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/e2e/check"
	"waterwheel/e2e/events"
)

// TestAvroIsStored stores events in Avro, with a schema in a file. A value that does not match the schema is a letter, whose
// redrive restores its bytes.
func TestAvroIsStored(t *testing.T) {
	t.Parallel()
	s := newStream(t, 2)
	const number = 600
	schema := filepath.Join(t.TempDir(), "reading.avsc")
	if err := os.WriteFile(schema, []byte(`{"type":"record","name":"Reading","fields":[
		{"name":"sensor","type":"string"},{"name":"site","type":["null","string"],"default":null},
		{"name":"at","type":{"type":"long","logicalType":"timestamp-micros"}},{"name":"n","type":"int"},{"name":"celsius","type":["null","double"]}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	begin := time.Now().Add(-time.Hour).Truncate(time.Second)
	text := func(b []byte, text string) []byte { return append(binary.AppendVarint(b, int64(len(text))), text...) }
	var made []events.Event
	for n := range number {
		at := begin.Add(time.Duration(n)*time.Second + 999*time.Microsecond)
		value := append(text(nil, fmt.Sprintf("s-%d", n%5)), 2)
		value = binary.AppendVarint(binary.AppendVarint(text(value, "north"), at.UnixMicro()), int64(n))
		fields := bson.D{{Key: "n", Value: int32(n)}}
		if n%3 == 0 {
			value = append(value, 0)
		} else {
			value = binary.LittleEndian.AppendUint64(append(value, 2), math.Float64bits(21.5))
			fields = append(fields, bson.E{Key: "celsius", Value: 21.5})
		}
		made = append(made, events.Event{Key: []byte("k"), Value: value, Fate: events.Fate{Parts: []events.Part{{Reading: &events.Reading{
			Time: at.UnixMilli(), Meta: bson.D{{Key: "sensor", Value: fmt.Sprintf("s-%d", n%5)}, {Key: "site", Value: "north"}}, Fields: fields,
		}}}}})
	}
	cut := made[1].Value[:len(made[1].Value)-3]
	tooEarly := append(text(nil, "s-9"), 0, 2, 2, 0)
	made = append(made,
		events.Event{Key: []byte("k"), Value: cut, Fate: events.Fate{Reason: "not_avro"}},
		events.Event{Key: []byte("k"), Value: tooEarly, Fate: events.Fate{Reason: "time_out_of_range"}})
	s.storesWith(made, number, 2, "EVENT_FORMAT", "avro", "EVENT_SCHEMA_FILE", schema, "EVENT_TIME_FIELD", "at", "EVENT_META_FIELDS", "sensor,site", "EVENT_NULLS", "drop")

	code, out := s.run("dlq", "list", "--reason", "time_out_of_range", "--output", "json")
	var row struct {
		DeadLetter string `bson:"letter"`
	}
	if err := bson.UnmarshalExtJSON([]byte(strings.Split(out, "\n")[0]), false, &row); err != nil {
		t.Fatalf("dlq list ended with code %d, %v in %s", code, err, out)
	}
	if code, out = s.run("dlq", "show", row.DeadLetter); code != 0 || !strings.Contains(out, `"sensor": "s-9"`) {
		t.Errorf("dlq show ended with code %d, and does not show the event:\n%s", code, out)
	}
	set := s.settings
	s.settings = set.With("EVENT_TIME_FIELD", "time").With("EVENT_META_FIELDS", "")
	if code, out = s.run("check", "--sample", "1000"); code != 3 || !strings.Contains(out, "EVENT_TIME_FIELD=at EVENT_META_FIELDS=sensor,site") {
		t.Errorf("check ended with code %d, and does not propose time and meta:\n%s", code, out)
	}
	s.settings = set
	found := 0
	for _, r := range s.redriven(len(made), 2)[len(made):] {
		if string(r.Value) == string(cut) || string(r.Value) == string(tooEarly) {
			found++
		}
	}
	if found != 2 {
		t.Errorf(check.Verdict+"%d of two letters went back as they came", found)
	}
}
