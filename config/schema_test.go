package config

import (
	"regexp"
	"slices"
	"testing"
)

// TestSchemaTakesWhatTheSettingTakes checks that the schema accepts the default and the bounds. Where the setting has a notation,
// the schema must accept nothing else.
func TestSchemaTakesWhatTheSettingTakes(t *testing.T) {
	all, limited := Schema(), 0
	for _, f := range fields(&Config{}) {
		schema, _ := all[f.name()].(map[string]any)
		if schema == nil || schema["description"] == "" || all[f.name()+"_FILE"] == nil {
			t.Fatalf("%s is not described", f.name())
		}
		takes := func(text string) bool {
			switch words := schema["enum"].(type) {
			case []string:
				return slices.Contains(words, text)
			case []any:
				return slices.Contains(words, any(text))
			}
			pattern, _ := schema["pattern"].(string)
			return regexp.MustCompile(pattern).MatchString(text)
		}
		for _, text := range append([]string{"", f.fallback(), f.tag("min"), f.tag("max")}, f.allowed()...) {
			if !takes(text) {
				t.Errorf("%s: the schema refuses %q", f.name(), text)
			}
		}
		if takes("10 parsecs") {
			continue
		}
		limited++
		if f.set("10 parsecs") == "" {
			t.Errorf("%s: the schema refuses what the setting takes", f.name())
		}
	}
	if limited < 30 || len(all) < 120 {
		t.Errorf("%d settings of %d have a notation: too few", limited, len(all)/2)
	}
}
