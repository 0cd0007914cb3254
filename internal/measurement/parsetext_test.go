package measurement

import (
	"strings"
	"testing"
)

// TestTextWithSeveralValuesSaysSo checks the error of a text of EVENT_PARSE that holds more than one JSON value.
func TestTextWithSeveralValuesSaysSo(t *testing.T) {
	d := newDecoder(t, Options{TimeField: "t", MetaFrom: MetaFromNone, Parse: []string{"p"}})
	for text, want := range map[string]string{
		`{\"v\":6}\n{\"v\":7}`: `the text holds more than one JSON value, but EVENT_PARSE reads one: "{\"v\":7}" follows at byte 8`,
		`[1] {\"v\":7}`:        `the text holds more than one JSON value`,
	} {
		err := refusal(t, d, recordOf(`{"t":1700000000,"p":"`+text+`"}`))
		if err.Reason != NotJSON || err.Path != "p" || !strings.Contains(err.Detail, want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestAdviceNamesTheZone checks that the advice about a date names the zone in which it would be read.
func TestAdviceNamesTheZone(t *testing.T) {
	for zone, want := range map[string]string{"": "UTC", "Europe/Berlin": "local time in Europe/Berlin (EVENT_TIME_ZONE)"} {
		d := newDecoder(t, Options{TimeField: "t", TimeZone: zone, MetaFrom: MetaFromNone})
		for text, advice := range map[string]string{
			"2023-11-14":     "set EVENT_TIME_FORMAT=2006-01-02, which is read as 00:00 " + want,
			"20231114221320": "set EVENT_TIME_FORMAT=20060102150405, which is read as " + want,
		} {
			if err := refusal(t, d, recordOf(`{"t":"`+text+`"}`)); err.Reason != BadTime || !strings.Contains(err.Detail, advice) {
				t.Errorf("%s in %q: %v", text, zone, err)
			}
		}
	}
}
