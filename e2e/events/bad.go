package events

import (
	"fmt"
	"strings"
)

// Reasons returns the reasons for which a JSON event can become a letter, in the order in which a Generator uses them.
func Reasons() []string {
	return []string{
		"not_json", "not_object", "empty", "missing_time", "bad_time", "time_out_of_range", "missing_meta", "bad_meta",
		"bad_field_name", "duplicate_field", "too_deep", "too_large", "bad_number", "bad_utf8",
	}
}

// Bad makes an event that must become a letter for the given reason. serial makes its value unique. maxBytes is the consumer's
// EVENT_MAX_BYTES.
func Bad(reason string, serial int, time int64, maxBytes int) Event {
	return Event{
		Key:   fmt.Appendf(nil, "bad-%d", serial%7),
		Value: badValue(reason, serial, time, maxBytes),
		Fate:  Fate{Reason: reason},
	}
}

// badValue returns the text of a bad event. Some reasons have two texts, which alternate with serial.
func badValue(reason string, serial int, time int64, maxBytes int) []byte {
	good := fmt.Sprintf(`"time":%d,"meta":"bad","serial":%d`, time, serial)
	other := serial%2 == 1
	switch reason {
	case "not_json":
		return pick(other, "{"+good+`,"x":`, "{"+good+",}")
	case "not_object":
		return pick(other, fmt.Sprintf(`"reading %d"`, serial), fmt.Sprint(serial))
	case "empty":
		return pick(other, "", "[]")
	case "missing_time":
		return fmt.Appendf(nil, `{"meta":"bad","serial":%d}`, serial)
	case "bad_time":
		return pick(other,
			fmt.Sprintf(`{"time":"yesterday","meta":"bad","serial":%d}`, serial),
			fmt.Sprintf(`{"time":true,"meta":"bad","serial":%d}`, serial))
	case "time_out_of_range":
		return pick(other,
			fmt.Sprintf(`{"time":"1970-01-01T00:00:05Z","meta":"bad","serial":%d}`, serial),
			fmt.Sprintf(`{"time":"2999-12-31T23:59:59Z","meta":"bad","serial":%d}`, serial))
	case "missing_meta":
		return fmt.Appendf(nil, `{"time":%d,"serial":%d}`, time, serial)
	case "bad_meta":
		return fmt.Appendf(nil, `{"time":%d,"meta":"%s","serial":%d}`, time, strings.Repeat("m", 9<<10), serial)
	case "bad_field_name":
		return pick(other, "{"+good+`,"$inc":1}`, "{"+good+`,"":1}`)
	case "duplicate_field":
		return pick(other, "{"+good+`,"x":1,"x":2}`, "{"+good+`,"o":{"x":1,"x":2}}`)
	case "too_deep":
		const depth = 150
		return []byte("{" + good + `,"x":` + strings.Repeat("[", depth) + strings.Repeat("]", depth) + "}")
	case "too_large":
		return []byte("{" + good + `,"x":"` + strings.Repeat("x", maxBytes) + `"}`)
	case "bad_number":
		return []byte("{" + good + `,"x":1e999}`)
	case "bad_utf8":
		return []byte("{" + good + ",\"x\":\"\xff\xfe\"}")
	default:
		panic("events: no bad event for the reason " + reason)
	}
}

// pick returns a, or b if second is true.
func pick(second bool, a, b string) []byte {
	if second {
		return []byte(b)
	}
	return []byte(a)
}
