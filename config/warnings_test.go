package config

import (
	"slices"
	"strings"
	"testing"
)

// TestSpacesAroundValuesAreWarnedAbout checks this because an env file and a file of one value keep such spaces.
func TestSpacesAroundValuesAreWarnedAbout(t *testing.T) {
	c, err := load(with("KAFKA_GROUP_ID", "g ", "EVENT_TIME_FIELD", " ts", "EVENT_META_FIELDS", "a, b ", "MEMORY_LIMIT", "1GiB "))
	if err != nil {
		t.Fatal(err)
	}
	var settings []string
	for _, w := range c.Warnings() {
		settings = append(settings, w.Setting+": "+w.Message)
	}
	const says = ": the value begins or ends with a space, which is a part of the value"
	if want := []string{"KAFKA_GROUP_ID" + says, "EVENT_TIME_FIELD" + says}; !slices.Equal(settings, want) {
		t.Errorf("%q, want %q", settings, want)
	}
}

func TestWeakSecurityIsWarnedAbout(t *testing.T) {
	login := []string{"KAFKA_SASL_MECHANISM", "PLAIN", "KAFKA_SASL_USERNAME", "u", "KAFKA_SASL_PASSWORD", "hIdDeN"}
	for _, c := range []struct {
		env  []string
		want string // the settings in the warning
	}{
		{nil, ""},
		{append([]string{"KAFKA_SECURITY", "sasl_tls"}, login...), ""},
		{append([]string{"KAFKA_SECURITY", "sasl_plaintext"}, login...), "KAFKA_SECURITY=sasl_plaintext"},
		{[]string{"KAFKA_SECURITY", "tls", "KAFKA_TLS_INSECURE", "true"}, "KAFKA_TLS_INSECURE=true"},
		{[]string{"SCHEMA_REGISTRY_URL", "https://a,http://b", "SCHEMA_REGISTRY_TOKEN", "t"}, "SCHEMA_REGISTRY_URL"},
		{[]string{"SCHEMA_REGISTRY_URL", "https://a", "SCHEMA_REGISTRY_USERNAME", "u", "SCHEMA_REGISTRY_TLS_INSECURE", "true"}, "SCHEMA_REGISTRY_TLS_INSECURE=true"},
		{[]string{"SCHEMA_REGISTRY_URL", "http://a"}, ""},
	} {
		loaded, err := load(with(c.env...))
		if err != nil {
			t.Fatal(err)
		}
		var settings []string
		for _, w := range loaded.Warnings() {
			settings = append(settings, w.Setting)
			if text := w.Message + w.WayOut; strings.Contains(text, "hIdDeN") || w.Message == "" || w.WayOut == "" {
				t.Errorf("%+v", w)
			}
		}
		if got := strings.Join(settings, " "); got != c.want {
			t.Errorf("%v: %q", c.env, got)
		}
	}
}
