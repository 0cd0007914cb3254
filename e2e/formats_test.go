package e2e_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/e2e/check"
	"waterwheel/e2e/events"
)

func gzipped(t *testing.T, text string) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, err := w.Write([]byte(text))
	if err = errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestCompressedEventsAreStored has values that their producer compressed, and some that it did not. A letter has the original
// bytes of the record. The redrive of an array element's letter compresses it again.
func TestCompressedEventsAreStored(t *testing.T) {
	t.Parallel()
	s := newStream(t, 2)
	const number = 500
	begin := time.Now().Add(-time.Hour).Truncate(time.Second)
	part := func(n int) events.Part {
		return events.Part{Reading: &events.Reading{
			Time: begin.Add(time.Duration(n) * time.Second).UnixMilli(), Meta: fmt.Sprintf("s%d", n%3), Fields: bson.D{{Key: "n", Value: int32(n)}},
		}}
	}
	event := func(n int) string {
		return fmt.Sprintf(`{"time":%d,"meta":"s%d","n":%d}`, begin.Add(time.Duration(n)*time.Second).UnixMilli(), n%3, n)
	}
	var made []events.Event
	for n := range number {
		value := []byte(event(n))
		if n%4 > 0 {
			value = gzipped(t, event(n))
		}
		made = append(made, events.Event{Key: []byte("k"), Value: value, Fate: events.Fate{Parts: []events.Part{part(n)}}})
	}
	const bad = `{"time":"noon","meta":"s"}`
	bomb := gzipped(t, event(1)+strings.Repeat(" ", 100*maxEventBytes))
	cut := gzipped(t, event(1))
	cut = cut[:len(cut)-1]
	made = append(made,
		events.Event{Key: []byte("k"), Value: gzipped(t, "["+event(number)+","+bad+","+event(number+1)+"]"), Fate: events.Fate{
			Array: true, Parts: []events.Part{part(number), {Reason: "bad_time", Value: gzipped(t, bad)}, part(number + 1)},
		}},
		events.Event{Key: []byte("k"), Value: bomb, Fate: events.Fate{Reason: "too_large"}},
		events.Event{Key: []byte("k"), Value: cut, Fate: events.Fate{Reason: "bad_compression"}})
	s.storesWith(made, number+2, 3, "EVENT_COMPRESSION", "auto")

	code, out := s.run("dlq", "list", "--reason", "bad_time", "--output", "json")
	if code != 0 {
		t.Fatalf("dlq list ended with code %d:\n%s", code, out)
	}
	var row struct {
		DeadLetter string `bson:"letter"`
	}
	if err := bson.UnmarshalExtJSON([]byte(strings.Split(out, "\n")[0]), false, &row); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	if code, out = s.run("dlq", "show", row.DeadLetter); code != 0 || !strings.Contains(out, "compressed by gzip") || !strings.Contains(out, `"noon"`) {
		t.Errorf("dlq show ended with code %d, and does not show what the letter unfolds to:\n%s", code, out)
	}
	set := s.settings
	s.settings = set.With("EVENT_COMPRESSION", "none")
	if code, out = s.run("check", "--sample", "1000"); code != 3 || !strings.Contains(out, "EVENT_COMPRESSION=auto") {
		t.Errorf("check ended with code %d, and does not propose the compression:\n%s", code, out)
	}
	s.settings = set
	records := s.redriven(len(made), 3)
	found := 0
	for _, r := range records[len(made):] {
		if bytes.Equal(r.Value, gzipped(t, bad)) || bytes.Equal(r.Value, bomb) || bytes.Equal(r.Value, cut) {
			found++
		}
	}
	if found != 3 {
		t.Errorf(check.Verdict+"%d of three letters went back as they came", found)
	}
}

// TestLinesAreStored stores Telegraf's default format, with one or many lines per record. A line that cannot be read is a letter
// by itself.
func TestLinesAreStored(t *testing.T) {
	t.Parallel()
	s := newStream(t, 2)
	begin := time.Now().Add(-time.Hour).Truncate(time.Second)
	line := func(n int) string {
		return fmt.Sprintf(`disk\ io,host=h%d,zone=a busy=%d.5,reads=%di,state="up, \"%d\"",ok=t %d`, n%5, n%100, n, n, begin.Add(time.Duration(n)*time.Second).UnixNano())
	}
	part := func(n int) events.Part {
		return events.Part{Reading: &events.Reading{
			Time: begin.Add(time.Duration(n) * time.Second).UnixMilli(),
			Meta: bson.D{{Key: "name", Value: "disk io"}, {Key: "tags", Value: bson.D{{Key: "host", Value: fmt.Sprintf("h%d", n%5)}, {Key: "zone", Value: "a"}}}},
			Fields: bson.D{
				{Key: "busy", Value: float64(n%100) + 0.5}, {Key: "reads", Value: int32(n)}, {Key: "state", Value: fmt.Sprintf(`up, "%d"`, n)}, {Key: "ok", Value: true},
			},
		}}
	}
	var made []events.Event
	stored := 0
	for ; stored < 900; stored += 3 {
		made = append(made,
			events.Event{Key: []byte("k"), Value: []byte(line(stored) + "\n"), Fate: events.Fate{Parts: []events.Part{part(stored)}}},
			events.Event{Key: []byte("k"), Value: []byte("# two\n" + line(stored+1) + "\n" + line(stored+2) + "\n"), Fate: events.Fate{
				Array: true, Parts: []events.Part{part(stored + 1), part(stored + 2)},
			}})
	}
	const bad = `disk,host=h1 busy=full 1700000000000000000`
	made = append(made,
		events.Event{Key: []byte("k"), Value: []byte(line(stored) + "\n" + bad + "\n" + line(stored+1)), Fate: events.Fate{
			Array: true, Parts: []events.Part{part(stored), {Reason: "not_influx", Value: []byte(bad)}, part(stored + 1)},
		}},
		events.Event{Key: []byte("k"), Value: []byte(`{"name":"disk"}`), Fate: events.Fate{Reason: "not_influx"}})
	s.storesWith(made, stored+2, 2, "EVENT_FORMAT", "influx")

	set := s.settings
	s.settings = set.With("EVENT_FORMAT", "json")
	if code, out := s.run("check", "--sample", "1000"); code != 3 || !strings.Contains(out, "EVENT_FORMAT=influx") {
		t.Errorf("check ended with code %d, and does not propose the format:\n%s", code, out)
	}
	s.settings = set
	if records := s.redriven(len(made), 2); string(records[len(made)].Value) != bad && string(records[len(made)+1].Value) != bad {
		t.Errorf(check.Verdict+"what went back of the lines is %q and %q", records[len(made)].Value, records[len(made)+1].Value)
	}
}
