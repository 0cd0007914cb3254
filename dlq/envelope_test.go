package dlq

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"waterwheel/internal/record"
)

// sample returns a letter.
func sample() record.DeadLetter {
	return record.DeadLetter{
		Place:     record.Place{Partition: record.Partition{Topic: "events", Number: 3}, Offset: 182},
		TopicID:   [16]byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16},
		Part:      record.WholeRecord,
		Key:       []byte("k"),
		Value:     []byte("not json"),
		Headers:   []byte("\x04\x0atrace\x02a\x0atrace\x01"),
		Timestamp: 1_700_000_000_123,
		Reason:    "not_json",
		Message:   "not_json: expected a value",
	}
}

// traced returns the headers of the record of sample.
func traced() []record.Header {
	return []record.Header{{Key: "trace", Value: []byte("a")}, {Key: "trace", Value: nil}}
}

// reread reads the output of envelope.
func reread(t *testing.T, l record.DeadLetter, headers []record.Header) Found {
	t.Helper()
	f, err := parse(l.Key, l.Value, envelope(&l, headers, "group"), l.Timestamp)
	if err != nil {
		t.Fatalf("parse: %v", err)
	}
	return f
}

func TestLetterComesBackAsItWas(t *testing.T) {
	earlier := sample()
	for name, change := range map[string]func(*record.DeadLetter, *Found){
		"whole record":        func(*record.DeadLetter, *Found) {},
		"first array element": func(l *record.DeadLetter, _ *Found) { l.Part = 0 },
		"array element": func(l *record.DeadLetter, f *Found) {
			l.Part, l.RefusedByDatabase, l.Reason, f.Stage = 17, true, "refused_by_database", stageWrite
		},
		"unknown topic id":   func(l *record.DeadLetter, _ *Found) { l.TopicID = [16]byte{} },
		"no headers, no key": func(l *record.DeadLetter, f *Found) { l.Key, f.Headers = nil, nil },
		"cut":                func(l *record.DeadLetter, _ *Found) { l.Cut = "value of 7 bytes" },
		"largest offset":     func(l *record.DeadLetter, _ *Found) { l.Offset = 1<<63 - 1 },
		"letter about a letter": func(_ *record.DeadLetter, f *Found) {
			f.Headers = slices.DeleteFunc(envelope(&earlier, traced(), "another group"), func(h record.Header) bool { return h.Key == HeaderAttempt })
		},
	} {
		t.Run(name, func(t *testing.T) {
			want := Found{Letter: sample(), Headers: traced(), Stage: stageDecode, Attempt: 1}
			want.Letter.Headers = nil
			change(&want.Letter, &want)
			if diff := cmp.Diff(want, reread(t, want.Letter, want.Headers)); diff != "" {
				t.Errorf("letter changed (-want +got):\n%s", diff)
			}
		})
	}
}

// TestFoundIsWhereItStands checks that the place of a letter is that of its record in the dead-letter topic, whatever its headers
// contain.
func TestFoundIsWhereItStands(t *testing.T) {
	at := record.Place{Partition: record.Partition{Topic: "events.dlq", Number: 1}, Offset: 7}
	f := found(at.Partition, &record.Record{Offset: 7, Headers: sample().Headers})
	if !errors.Is(f.Err, errNotLetter) || f.Place != at {
		t.Errorf("%+v", f)
	}
}

func TestEnvelopeHasTheDocumentedHeaders(t *testing.T) {
	l := sample()
	l.Part = 4
	got := map[string]string{}
	for _, h := range envelope(&l, traced(), "waterwheel")[len(traced()):] {
		got[h.Key] = string(h.Value)
	}
	want := map[string]string{
		"__connect.errors.topic":                "events",
		"__connect.errors.partition":            "3",
		"__connect.errors.offset":               "182",
		"__connect.errors.connector.name":       "waterwheel",
		"__connect.errors.stage":                "VALUE_CONVERTER",
		"__connect.errors.exception.class.name": "not_json",
		"__connect.errors.exception.message":    "not_json: expected a value",
		"waterwheel.reason":                     "not_json",
		"waterwheel.topic.id":                   "AQIDBAUGBwgJCgsMDQ4PEA",
		"waterwheel.attempt":                    "1",
		"waterwheel.part":                       "4",
		"waterwheel.timestamp":                  "1700000000123",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("headers (-want +got):\n%s", diff)
	}
}

// drivenBack returns the headers of a redriven record after an attempt.
func drivenBack(attempt string, own ...record.Header) []record.Header {
	return append(slices.Clone(own), record.Header{Key: "waterwheel.attempt", Value: []byte(attempt)}, record.Header{Key: "waterwheel.driven", Value: []byte("events.dlq/0/12")})
}

func TestAttemptGoesOnFromTheRecord(t *testing.T) {
	driven := drivenBack("2", record.Header{Key: "trace", Value: []byte("a")})
	if got := AttemptOf(driven); got != 2 {
		t.Errorf("Attempt = %d, want 2", got)
	}
	for _, text := range []string{"", "x", "0", "-4", "99999999999"} {
		if got := AttemptOf(drivenBack(text)); got != 1 {
			t.Errorf("Attempt of %q = %d, want 1", text, got)
		}
	}
	got := reread(t, sample(), driven)
	if got.Attempt != 2 || len(got.Headers) != 1 {
		t.Errorf("read back attempt %d and headers %v, want 2 and only trace", got.Attempt, got.Headers)
	}
}

// TestAttemptOfAProducerIsItsOwn checks that a header of a producer with that name is not counted and is kept.
func TestAttemptOfAProducerIsItsOwn(t *testing.T) {
	attempt, place := record.Header{Key: "waterwheel.attempt", Value: []byte("7")}, record.Header{Key: "waterwheel.driven", Value: []byte("events.dlq/0/12")}
	for name, own := range map[string][]record.Header{
		"alone":          {attempt},
		"twice":          {attempt, attempt},
		"of no place":    {attempt, {Key: "waterwheel.driven", Value: []byte("yes")}},
		"of no offset":   {attempt, {Key: "waterwheel.driven", Value: []byte("events.dlq/0/-1")}},
		"of a null":      {attempt, {Key: "waterwheel.driven"}},
		"elsewhere":      {attempt, place, {Key: "trace"}},
		"in other order": {place, attempt},
	} {
		if got := AttemptOf(own); got != 1 {
			t.Errorf("%s: Attempt = %d, want 1", name, got)
		}
		f := reread(t, sample(), own)
		if diff := cmp.Diff(own, f.Headers); diff != "" || f.Attempts() != 1 {
			t.Errorf("%s: in a letter of %d attempts (-want +got):\n%s", name, f.Attempts(), diff)
		}
	}
}

func TestParseReadsKafkaConnect(t *testing.T) {
	text := func(pairs ...string) (headers []record.Header) {
		for i := 0; i < len(pairs); i += 2 {
			headers = append(headers, record.Header{Key: pairs[i], Value: []byte(pairs[i+1])})
		}
		return headers
	}
	got, err := parse(nil, []byte("v"), text(
		"own", "1",
		"__connect.errors.topic", "orders",
		"__connect.errors.partition", "0",
		"__connect.errors.offset", "7",
		"__connect.errors.connector.name", "sink",
		"__connect.errors.task.id", "0",
		"__connect.errors.stage", "VALUE_CONVERTER",
		"__connect.errors.class.name", "org.apache.kafka.connect.json.JsonConverter",
		"__connect.errors.exception.class.name", "org.apache.kafka.connect.errors.DataException",
		"__connect.errors.exception.message", "bad",
		"__connect.errors.exception.stacktrace", "at …",
	), 5)
	want := Found{
		Letter: record.DeadLetter{
			Place: record.Place{Partition: record.Partition{Topic: "orders"}, Offset: 7}, Part: record.WholeRecord, Value: []byte("v"), Timestamp: 5,
			Reason: "org.apache.kafka.connect.errors.DataException", Message: "bad",
		},
		Headers: text("own", "1"), Stage: stageDecode, Attempt: 1,
	}
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("letter (-want +got):\n%s", diff)
	}
}

func TestParseRefusesWhatIsNoLetter(t *testing.T) {
	if _, err := parse(nil, nil, []record.Header{{Key: "trace"}}, 0); !errors.Is(err, errNotLetter) {
		t.Errorf("a plain record: %v, want errNotLetter", err)
	}
	broken := map[string][2]string{
		"partition":       {headerPartition, "-1"},
		"large partition": {headerPartition, "2147483648"},
		"offset":          {headerOffset, "1e3"},
		"topic id":        {headerTopicID, "AQID"},
		"no base64":       {headerTopicID, "***"},
		"part":            {headerPart, "x"},
		"timestamp":       {headerTimestamp, "now"},
	}
	for name, header := range broken {
		l := sample()
		headers := append(envelope(&l, traced(), "g"), record.Header{Key: header[0], Value: []byte(header[1])})
		if _, err := parse(nil, nil, headers, 0); err == nil || !strings.Contains(err.Error(), header[0]) {
			t.Errorf("%s: error %v, want one that names %s", name, err, header[0])
		}
	}
	if _, err := parse(nil, nil, []record.Header{{Key: headerTopic, Value: []byte("t")}}, 0); err == nil {
		t.Error("a letter without partition and offset was accepted")
	}
}

func TestMessageIsCutToValidText(t *testing.T) {
	for _, message := range []string{
		strings.Repeat("x", 1200), strings.Repeat("x", 1201), strings.Repeat("é", 601), strings.Repeat("x", 1196) + "世界世界", "bad \xff byte",
	} {
		got := shorten(message, maxMessage)
		if len(got) > maxMessage || !utf8.ValidString(got) {
			t.Errorf("shorten(%q…) = %d bytes, valid %v", message[:5], len(got), utf8.ValidString(got))
		}
		if len(message) <= maxMessage && utf8.ValidString(message) && got != message {
			t.Errorf("a short message became %q", got)
		}
	}
}

func FuzzParse(f *testing.F) {
	l := sample()
	for _, h := range envelope(&l, traced(), "g") {
		f.Add(h.Key, h.Value)
	}
	f.Fuzz(func(t *testing.T, key string, value []byte) {
		headers := append(envelope(&l, traced(), "g"), record.Header{Key: key, Value: value})
		got, err := parse(l.Key, l.Value, headers, 0)
		if err == nil && (got.Letter.Part < record.WholeRecord || got.Letter.Offset < 0 || got.Letter.Number < 0 || got.Attempt < 1) {
			t.Errorf("out of bounds: %+v", got)
		}
	})
}
