package bench

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"
)

// TestEventsAreOfTheLoad checks that the events have the requested series, fields, size and share of late ones, and that each
// time occurs once in a series.
func TestEventsAreOfTheLoad(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*Load){
		"base":             func(*Load) {},
		"shuffled":         func(l *Load) { l.Order = Shuffled },
		"padded":           func(l *Load) { l.EventBytes = 1000 },
		"many fields":      func(l *Load) { l.Fields = 200 },
		"one of a series":  func(l *Load) { l.Series = l.Records },
		"an uneven number": func(l *Load) { l.Series, l.Order = 37, Shuffled },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := Base()
			l.Records, l.Series = 1000, 20
			change(&l)
			checkEvents(t, l)
		})
	}
}

func checkEvents(t *testing.T, l Load) {
	t.Helper()
	m := NewMaker(l)
	times := map[string]map[time.Time]bool{}
	last := map[string]time.Time{}
	backwards := 0
	for i := range l.Records {
		value := m.Append(nil, i)
		var e map[string]any
		if err := json.Unmarshal(value, &e); err != nil {
			t.Fatalf("%v in %s", err, value)
		}
		sensor := e["meta"].(map[string]any)["sensor"].(string)
		at, err := time.Parse(time.RFC3339, e["time"].(string))
		if err != nil || !at.Equal(m.Time(i)) {
			t.Fatalf("time %v (%v), not %v", e["time"], err, m.Time(i))
		}
		if times[sensor] == nil {
			times[sensor] = map[time.Time]bool{}
		}
		if times[sensor][at] {
			t.Fatalf("%s has %s twice", sensor, at)
		}
		if at.Before(last[sensor]) {
			backwards++
		}
		times[sensor][at], last[sensor] = true, at
		delete(e, "time")
		delete(e, "meta")
		delete(e, "text")
		if len(e) != l.Fields {
			t.Fatalf("%d fields in %s", len(e), value)
		}
		if l.EventBytes > 0 && len(value) != l.EventBytes {
			t.Fatalf("%d bytes, not %d: %s", len(value), l.EventBytes, value)
		}
	}
	if len(times) != l.Series {
		t.Errorf("%d series, not %d", len(times), l.Series)
	}
	if shuffled := l.Order == Shuffled; shuffled != (backwards > l.Records/10) {
		t.Errorf("order %s: %d of %d go back in time", l.Order, backwards, l.Records)
	}
}

// TestBaseEventHasItsLength checks the size of about 156 bytes per event, for which figures are published.
func TestBaseEventHasItsLength(t *testing.T) {
	t.Parallel()
	m, bytes := NewMaker(Base()), 0
	for i := range 1000 {
		bytes += len(m.Append(nil, i))
	}
	if mean := float64(bytes) / 1000; math.Abs(mean-156) > 2 {
		t.Errorf("%.1f bytes", mean)
	}
}

// TestLateShare checks that the requested share of measurements is between a minute and an hour late.
func TestLateShare(t *testing.T) {
	t.Parallel()
	l := Base()
	inTime := NewMaker(l)
	l.Late = 0.25
	m, late := NewMaker(l), 0
	for i := range 10_000 {
		switch by := inTime.Time(i).Sub(m.Time(i)); {
		case by == 0:
		case by < time.Minute || by > time.Hour:
			t.Fatalf("%s late", by)
		default:
			late++
		}
	}
	if late < 2300 || late > 2700 {
		t.Errorf("%d of 10,000 late, not about 2,500", late)
	}
}

// TestWrongPlansAreNamed checks that every error in a plan is reported with its value.
func TestWrongPlansAreNamed(t *testing.T) {
	t.Parallel()
	wrong := Plan{Load: Load{Order: "none", Late: 2}, Peers: []Peer{"nobody", Ceiling}}
	err := wrong.Validate()
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"0 records", "0 series", "0 fields", `"none"`, "2, not 0 to 1", "0 partitions", "step", "0 rounds with a patience", `"nobody"`, "ceiling inserts again"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %q", want, err)
		}
	}
	if err := (Plan{Load: Base(), Rounds: 1, Patience: time.Hour, Peers: Peers}).Validate(); err != nil {
		t.Error(err)
	}
}
