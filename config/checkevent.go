package config

import "waterwheel/measurement"

func (k *checker) events() {
	e := k.Event
	for _, path := range [][2]string{{"EVENT_TIME_FIELD", e.TimeField}, {"EVENT_META_FIELD", e.MetaField}} {
		if err := measurement.CheckPath(path[1]); err != nil {
			k.fail(path[0], path[1], "%v", err)
		}
	}
	if k.good("EVENT_META_FROM") && e.MetaField == "" && e.MetaFrom == "value" {
		k.fail("EVENT_META_FIELD", "", "is empty: name the field, or set EVENT_META_FROM to key or none")
	}
	if e.TimeField != "" && e.TimeField == e.MetaField && e.MetaFrom == "value" {
		k.fail("EVENT_META_FIELD", e.MetaField, "is EVENT_TIME_FIELD as well: a series cannot be named after its times")
	}
	if err := measurement.CheckTimeFormat(e.TimeFormat); err != nil {
		k.fail("EVENT_TIME_FORMAT", e.TimeFormat, "%v", err)
	}
	if k.good("EVENT_TIME_MIN", "EVENT_TIME_MAX") && e.TimeMin.Excludes(e.TimeMax) {
		k.fail("EVENT_TIME_MAX", e.TimeMax, "must be after EVENT_TIME_MIN = %s: no time would be accepted", e.TimeMin)
	}
}
