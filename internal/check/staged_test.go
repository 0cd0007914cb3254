package check

import (
	"fmt"
	"strings"
	"testing"

	"waterwheel/internal/measurement"
)

// TestSettingsOfShapesInEffectAreLookedAt checks that findings about values are about the events that the settings make.
func TestSettingsOfShapesInEffectAreLookedAt(t *testing.T) {
	events := repeat(60, `{"p":{"device":"d%d","readings":[{"ts":%d,"v":"%d.5"},{"ts":%d,"v":"1.5"}]}}`, func(i int) []any {
		return []any{i % 5, 1_700_000_000 + i, i, 1_700_000_000 + i}
	})
	set := func(o *measurement.Options) {
		o.Root, o.List, o.TimeField, o.MetaField, o.MetaFields = "p", []string{"readings"}, "ts", "", []string{"device"}
	}
	decoding, bucketing := eventOptions(t, set)
	var found Findings
	view, err := Feed(strings.NewReader(strings.Join(events, "\n")), 1_700_000_000_000, decoding, bucketing, &found)
	if err != nil || view.Measurements != 120 {
		t.Fatalf("%+v, %v", view, err)
	}
	said := false
	for _, one := range found {
		said = said || one.State == Warning && strings.Contains(one.Text, "p.v is a number in a string in 120 of 120 events") && strings.Contains(one.WayOut, "EVENT_NUMBERS=text")
		if strings.Contains(one.Text, "is a list") {
			t.Errorf("the list is taken apart: %+v", one)
		}
	}
	if !said {
		t.Errorf("nothing is said of the numbers in texts: %+v", found)
	}
	numbers := func(o *measurement.Options) { set(o); o.Numbers = measurement.NumbersInText }
	if a := advised(t, numbers, events...); a.Proposal != nil || a.Question != "" {
		t.Errorf("settings that fit get advice: %+v", a)
	}
}

// TestSkippedEventsAreNoLettersOfASample checks that they are counted, and that settings that skip them fit.
func TestSkippedEventsAreNoLettersOfASample(t *testing.T) {
	events := append(repeat(30, `{"device":"d%d","time":%d,"v":1}`, func(i int) []any { return []any{i % 5, 1_700_000_000 + i} }), `{"join":true}`, `{"join":true}`)
	decoding, bucketing := eventOptions(t, func(o *measurement.Options) {
		o.MetaField, o.MetaFields, o.Skip = "", []string{"device"}, []string{"join=true"}
	})
	var found Findings
	view, err := Feed(strings.NewReader(strings.Join(events, "\n")), 1_700_000_000_000, decoding, bucketing, &found)
	if err != nil || view.Measurements != 30 || view.Skipped != 2 || view.Tombstones != 0 || len(view.Bad) > 0 || view.Proposal != nil {
		t.Errorf("%+v, %v", view, err)
	}
	decoding.Skip = []string{"!w"}
	found = nil
	if _, err := Feed(strings.NewReader(strings.Join(events, "\n")), 1_700_000_000_000, decoding, bucketing, &found); err != nil || !strings.Contains(fmt.Sprint(found), "leaves out all 32 events") {
		t.Errorf("no warning that all events are left out: %v, %v", found, err)
	}
}

// TestLocalTimesInAZoneAreNoGuess checks that a format without a zone causes a warning until the zone is set.
func TestLocalTimesInAZoneAreNoGuess(t *testing.T) {
	events := repeat(30, `{"time":"2023-11-14 22:13:%02d","meta":"a"}`, func(i int) []any { return []any{i} })
	says := func(zone string) bool {
		decoding, bucketing := eventOptions(t, func(o *measurement.Options) { o.TimeFormat, o.TimeZone = "2006-01-02 15:04:05", zone })
		var found Findings
		if _, err := Feed(strings.NewReader(strings.Join(events, "\n")), 1_700_000_000_000, decoding, bucketing, &found); err != nil {
			t.Fatal(err)
		}
		for _, one := range found {
			if strings.Contains(one.Text, "has no zone") {
				return true
			}
		}
		return false
	}
	if !says("") || says("Europe/Berlin") {
		t.Errorf("without a zone %v, with one %v", says(""), says("Europe/Berlin"))
	}
}
