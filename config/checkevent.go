package config

import (
	"slices"
	"strings"
	"time"
)

func (k *checker) events() {
	e := k.Event
	for _, path := range [][2]string{{"EVENT_TIME_FIELD", e.TimeField}, {"EVENT_META_FIELD", e.MetaField}} {
		if path[1] != "" && slices.Contains(strings.Split(path[1], "."), "") {
			k.fail(path[0], path[1], "not a dotted path: one of its names is empty")
		}
	}
	if k.good("EVENT_META_FROM") && e.MetaField == "" && e.MetaFrom == "value" {
		k.fail("EVENT_META_FIELD", "", "is empty: name the field, or set EVENT_META_FROM to key or none")
	}
	if e.TimeField != "" && e.TimeField == e.MetaField && e.MetaFrom == "value" {
		k.fail("EVENT_META_FIELD", e.MetaField, "is EVENT_TIME_FIELD as well: a series cannot be named after its times")
	}
	if !isTimeFormat(e.TimeFormat) {
		k.fail("EVENT_TIME_FORMAT", e.TimeFormat, "neither auto, rfc3339, unix, unix_ms, unix_us, unix_ns nor a Go layout with "+
			"year, month and day, as 2006-01-02 15:04:05")
	}
	k.window()
}

// isTimeFormat tells whether times of different days look different in the format and can be read back.
func isTimeFormat(format string) bool {
	if slices.Contains([]string{"auto", "rfc3339", "unix", "unix_ms", "unix_us", "unix_ns"}, format) {
		return true
	}
	day := time.Date(2011, 11, 23, 0, 0, 0, 0, time.UTC)
	back, err := time.Parse(format, day.Format(format))
	return err == nil && back.Equal(day)
}

func (k *checker) window() {
	low, high := k.Event.TimeMin, k.Event.TimeMax
	if low.Relative != high.Relative || !k.good("EVENT_TIME_MIN", "EVENT_TIME_MAX") {
		return
	}
	if low.Relative && low.Offset >= high.Offset || !low.Relative && !low.Time.Before(high.Time) {
		k.fail("EVENT_TIME_MAX", high, "must be after EVENT_TIME_MIN = %s: no time would be accepted", low)
	}
}
