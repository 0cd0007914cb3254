package events

import (
	"fmt"
	"strconv"
	"strings"
)

// badTexts lists the reasons for which a JSON event can become a letter. Texts of one reason are used in turn. In a text, SERIAL
// stands for a unique number, TIME for a valid time, GOOD for the fields of a good event, and LONG for EVENT_MAX_BYTES characters.
var badTexts = []struct {
	reason string
	texts  []string
}{
	{"not_json", []string{`{GOOD,"x":`, `{GOOD,}`}},
	{"not_object", []string{`"reading SERIAL"`, `SERIAL`}},
	{"empty", []string{``, `[]`}},
	{"missing_time", []string{`{"meta":"bad","serial":SERIAL}`}},
	{"bad_time", []string{`{"time":"yesterday","meta":"bad","serial":SERIAL}`, `{"time":true,"meta":"bad","serial":SERIAL}`}},
	{"time_out_of_range", []string{
		`{"time":"1970-01-01T00:00:05Z","meta":"bad","serial":SERIAL}`,
		`{"time":"2999-12-31T23:59:59Z","meta":"bad","serial":SERIAL}`,
	}},
	{"missing_meta", []string{`{"time":TIME,"serial":SERIAL}`}},
	{"bad_meta", []string{`{"time":TIME,"meta":"` + strings.Repeat("m", 9<<10) + `","serial":SERIAL}`}},
	{"bad_field_name", []string{`{GOOD,"$inc":1}`, `{GOOD,"":1}`}},
	{"duplicate_field", []string{`{GOOD,"x":1,"x":2}`, `{GOOD,"o":{"x":1,"x":2}}`}},
	{"too_deep", []string{`{GOOD,"x":` + strings.Repeat("[", 150) + strings.Repeat("]", 150) + `}`}},
	{"too_large", []string{`{GOOD,"x":"LONG"}`}},
	{"bad_number", []string{`{GOOD,"x":1e999}`}},
	{"bad_utf8", []string{"{GOOD,\"x\":\"\xff\xfe\"}"}},
}

// Reasons returns the reasons for which a JSON event can become a letter, in the order in which a Generator uses them.
func Reasons() []string {
	reasons := make([]string, len(badTexts))
	for i, bad := range badTexts {
		reasons[i] = bad.reason
	}
	return reasons
}

// Bad makes an event that must become a letter for the given reason. serial makes its value unique. maxBytes is the consumer's
// EVENT_MAX_BYTES.
func Bad(reason string, serial int, time int64, maxBytes int) Event {
	for _, bad := range badTexts {
		if bad.reason != reason {
			continue
		}
		text := strings.NewReplacer("GOOD", `"time":TIME,"meta":"bad","serial":SERIAL`, "LONG", strings.Repeat("x", maxBytes)).
			Replace(bad.texts[serial%len(bad.texts)])
		text = strings.NewReplacer("TIME", strconv.FormatInt(time, 10), "SERIAL", strconv.Itoa(serial)).Replace(text)
		return Event{Key: fmt.Appendf(nil, "bad-%d", serial%7), Value: []byte(text), Fate: Fate{Reason: reason}}
	}
	panic("events: no bad event for the reason " + reason)
}
