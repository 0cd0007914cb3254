package dlq

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func sample() Letter {
	return Letter{
		Topic:     "events",
		TopicID:   [16]byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16},
		Partition: 3,
		Offset:    182,
		Part:      WholeRecord,
		Key:       []byte("k"),
		Value:     []byte("not json"),
		Headers:   []Header{{Key: "trace", Value: []byte("a")}, {Key: "trace", Value: nil}},
		Timestamp: 1_700_000_000_123,
		Reason:    "not_json",
		Message:   "not_json: expected a value",
		Stage:     StageDecode,
		Attempt:   1,
	}
}

// parse reads back what envelope wrote.
func parse(t *testing.T, l Letter) Letter {
	t.Helper()
	got, err := Parse(l.Key, l.Value, envelope(&l, "group"), l.Timestamp)
	if err != nil {
		t.Fatalf("Parse: %v", err)
	}
	return got
}

func TestLetterComesBackAsItWas(t *testing.T) {
	letters := map[string]func(*Letter){
		"whole record":        func(*Letter) {},
		"first array element": func(l *Letter) { l.Part = 0 },
		"array element":       func(l *Letter) { l.Part, l.Stage, l.Reason = 17, StageWrite, "refused_by_database" },
		"unknown topic id":    func(l *Letter) { l.TopicID = [16]byte{} },
		"third attempt":       func(l *Letter) { l.Attempt = 3 },
		"no headers, no key":  func(l *Letter) { l.Headers, l.Key = nil, nil },
		"cut":                 func(l *Letter) { l.Cut = "value of 7 bytes" },
		"largest offset":      func(l *Letter) { l.Offset = 1<<63 - 1 },
		"letter about a letter": func(l *Letter) {
			first := sample()
			l.Headers = envelope(&first, "another group")
			l.Headers = slices.DeleteFunc(l.Headers, func(h Header) bool { return h.Key == headerAttempt })
		},
	}
	for name, change := range letters {
		t.Run(name, func(t *testing.T) {
			want := sample()
			change(&want)
			if diff := cmp.Diff(want, parse(t, want)); diff != "" {
				t.Errorf("letter changed (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEnvelopeHasTheDocumentedHeaders(t *testing.T) {
	l := sample()
	l.Part = 4
	got := map[string]string{}
	for _, h := range envelope(&l, "waterwheel")[len(l.Headers):] {
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

// drivenBack are the headers of a record that went back, after an attempt.
func drivenBack(attempt string, own ...Header) []Header {
	return append(slices.Clone(own), Header{Key: "waterwheel.attempt", Value: []byte(attempt)}, Header{Key: "waterwheel.driven", Value: []byte("events.dlq/0/12")})
}

func TestAttemptGoesOnFromTheRecord(t *testing.T) {
	driven := drivenBack("2", Header{Key: "trace", Value: []byte("a")})
	if got := Attempt(driven); got != 2 {
		t.Errorf("Attempt = %d, want 2", got)
	}
	for _, text := range []string{"", "x", "0", "-4", "99999999999"} {
		if got := Attempt(drivenBack(text)); got != 1 {
			t.Errorf("Attempt of %q = %d, want 1", text, got)
		}
	}
	l := sample()
	l.Headers, l.Attempt = driven, Attempt(driven)
	got := parse(t, l)
	if got.Attempt != 2 || len(got.Headers) != 1 {
		t.Errorf("read back attempt %d and headers %v, want 2 and only trace", got.Attempt, got.Headers)
	}
}

// A producer's own header of that name is a header like any other: it counts for nothing, and survives.
func TestAttemptOfAProducerIsItsOwn(t *testing.T) {
	attempt, place := Header{Key: "waterwheel.attempt", Value: []byte("7")}, Header{Key: "waterwheel.driven", Value: []byte("events.dlq/0/12")}
	for name, own := range map[string][]Header{
		"alone":          {attempt},
		"twice":          {attempt, attempt},
		"of no place":    {attempt, {Key: "waterwheel.driven", Value: []byte("yes")}},
		"of no offset":   {attempt, {Key: "waterwheel.driven", Value: []byte("events.dlq/0/-1")}},
		"of a null":      {attempt, {Key: "waterwheel.driven"}},
		"elsewhere":      {attempt, place, {Key: "trace"}},
		"in other order": {place, attempt},
	} {
		if got := Attempt(own); got != 1 {
			t.Errorf("%s: Attempt = %d, want 1", name, got)
		}
		l := sample()
		l.Headers = own
		l = parse(t, l)
		if diff := cmp.Diff(own, l.Headers); diff != "" || l.attempts() != 1 {
			t.Errorf("%s: in a letter of %d attempts (-want +got):\n%s", name, l.attempts(), diff)
		}
		back := returned(&Found{Place: dead, Offset: 12, Letter: l})
		if diff := cmp.Diff(drivenBack("2", own...), back.Headers); diff != "" || Attempt(back.Headers) != 2 {
			t.Errorf("%s: back (-want +got):\n%s", name, diff)
		}
	}
}

func TestParseReadsKafkaConnect(t *testing.T) {
	text := func(pairs ...string) (headers []Header) {
		for i := 0; i < len(pairs); i += 2 {
			headers = append(headers, Header{Key: pairs[i], Value: []byte(pairs[i+1])})
		}
		return headers
	}
	got, err := Parse(nil, []byte("v"), text(
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
	want := Letter{
		Topic: "orders", Offset: 7, Part: WholeRecord, Value: []byte("v"), Headers: text("own", "1"), Timestamp: 5,
		Reason: "org.apache.kafka.connect.errors.DataException", Message: "bad", Stage: StageDecode, Attempt: 1,
	}
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("letter (-want +got):\n%s", diff)
	}
}

func TestParseRefusesWhatIsNoLetter(t *testing.T) {
	if _, err := Parse(nil, nil, []Header{{Key: "trace"}}, 0); !errors.Is(err, ErrNotLetter) {
		t.Errorf("a plain record: %v, want ErrNotLetter", err)
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
		headers := append(envelope(&l, "g"), Header{Key: header[0], Value: []byte(header[1])})
		if _, err := Parse(nil, nil, headers, 0); err == nil || !strings.Contains(err.Error(), header[0]) {
			t.Errorf("%s: error %v, want one that names %s", name, err, header[0])
		}
	}
	if _, err := Parse(nil, nil, []Header{{Key: headerTopic, Value: []byte("t")}}, 0); err == nil {
		t.Error("a letter without partition and offset was accepted")
	}
}

func TestMessageIsCutToValidText(t *testing.T) {
	for _, message := range []string{
		strings.Repeat("x", 256), strings.Repeat("x", 257), strings.Repeat("é", 200), strings.Repeat("x", 252) + "世界世界", "bad \xff byte",
	} {
		got := shorten(message)
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
	for _, h := range envelope(&l, "g") {
		f.Add(h.Key, h.Value)
	}
	f.Fuzz(func(t *testing.T, key string, value []byte) {
		headers := append(envelope(&l, "g"), Header{Key: key, Value: value})
		got, err := Parse(l.Key, l.Value, headers, 0)
		if err == nil && (got.Part < WholeRecord || got.Offset < 0 || got.Partition < 0 || got.Attempt < 1) {
			t.Errorf("out of bounds: %+v", got)
		}
	})
}
