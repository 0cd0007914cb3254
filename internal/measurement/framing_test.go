package measurement

import (
	"strings"
	"testing"
)

func TestFramesMayBeMixed(t *testing.T) {
	d := newDecoder(t, Options{TimeField: "t", MetaFrom: MetaFromNone, Framing: AutoFrame})
	for _, before := range []string{"", "\x00\x00\x00\x00\x07", "\ufeff", "\x00\x00\x00\x00\x07\ufeff"} {
		decodeOne(t, d, recordOf(before+`{"t":1700000000}`))
	}
	if err := refusal(t, d, recordOf("\x00\x00\x00\x00\x07\x06abc")); err.Reason != NotJSON || !strings.Contains(err.Detail, "EVENT_FRAMING=auto is not JSON") {
		t.Error(err)
	}
	if err := refusal(t, d, recordOf("\x00\x00\x00\x00\x07")); err.Reason != Empty {
		t.Error(err)
	}
}
