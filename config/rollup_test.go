package config

import (
	"strings"
	"testing"
)

func TestSettingsOfRollups(t *testing.T) {
	for _, c := range []struct {
		settings map[string]string
		want     string
	}{
		{map[string]string{"ROLLUP_LEVELS": "1m:2160h,1h:17520h,1d", "ROLLUP_FIELDS": "celsius,wind.*", "ROLLUP_SHARE": "1"}, ""},
		{map[string]string{"ROLLUP_LEVELS": "5m"}, `ROLLUP_LEVELS=5m: has "5m", which is not a level`},
		{map[string]string{"ROLLUP_LEVELS": "1m,1d"}, "has 1d without 1h"},
		{map[string]string{"ROLLUP_SHARE": "0"}, "is not a share: give a number from 0.01 to 1"},
		{map[string]string{"ROLLUP_SHARE": "NaN"}, "is not a share"},
		{map[string]string{"ROLLUP_FIELDS": "a..b"}, "has an empty name"},
		{map[string]string{"ROLLUP_COUNT_FIELD": "a.b"}, "must be the name of a top-level field"},
		{map[string]string{"ROLLUP_COUNT_FIELD": "time"}, "must differ from MONGODB_TIME_FIELD"},
		{map[string]string{"ROLLUP_LEVELS": "1h", "KAFKA_TOPICS": "m,m_1h"}, `the totals by 1h of topic m need the name "m_1h", which is the time series of another topic`},
		{map[string]string{"ROLLUP_LEVELS": "1h", "MONGODB_COLLECTION": strings.Repeat("x", 233)}, "the time series for the totals by 1h of topic m would be"},
		{map[string]string{"ROLLUP_LEVELS": "1h", "ROLLUP_NESTED": "months:sum,max"}, ""},
		{map[string]string{"ROLLUP_LEVELS": "1h", "ROLLUP_NESTED": "{topic}_months", "KAFKA_TOPICS": "m,n"}, ""},
		{map[string]string{"ROLLUP_NESTED": "months"}, "ROLLUP_NESTED=months: needs ROLLUP_LEVELS"},
		{map[string]string{"ROLLUP_LEVELS": "1h", "ROLLUP_NESTED": "months:summ"}, `has "summ", which is not an aggregation`},
		{map[string]string{"ROLLUP_LEVELS": "1h", "ROLLUP_NESTED": "months", "KAFKA_TOPICS": "m,n"}, "must have {topic} in the name of the collection"},
		{map[string]string{"ROLLUP_LEVELS": "1h", "ROLLUP_NESTED": "months", "KAFKA_TOPICS": "^m"}, "must have {topic} in the name of the collection"},
		{map[string]string{"ROLLUP_LEVELS": "1h", "ROLLUP_NESTED": "m_1h"}, `would use the collection "m_1h", which belongs to a time series`},
		{map[string]string{"ROLLUP_LEVELS": "1h", "ROLLUP_NESTED": "m.options"}, `would use the collection "m.options", which belongs to a time series`},
		{map[string]string{"ROLLUP_LEVELS": "1h", "ROLLUP_NESTED": "system.months"}, `the collection for topic m would be "system.months", which`},
		{map[string]string{"ROLLUP_LEVEL": "1h"}, "ROLLUP_LEVELS"},
	} {
		settings := map[string]string{"KAFKA_BROKERS": "k:9092", "KAFKA_TOPICS": "m", "MONGODB_URI": "mongodb://m", "MEMORY_LIMIT": "1GiB"}
		var environ []string
		for name, value := range c.settings {
			settings[name] = value
			environ = append(environ, name+"="+value)
		}
		_, err := Load(func(name string) (string, bool) {
			value, ok := settings[name]
			return value, ok
		}, environ)
		got := ""
		if err != nil {
			got = err.Error()
		}
		if c.want == "" && err != nil || !strings.Contains(got, c.want) {
			t.Errorf("%v: %s, want %q", c.settings, got, c.want)
		}
	}
}
