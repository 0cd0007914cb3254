package config

import (
	"strings"
	"testing"
)

func TestPlaces(t *testing.T) {
	c, err := load(with("KAFKA_SKIP_CORRUPT", "events/3/182, a.b-c/0/9223372036854775807"))
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Kafka.SkipCorrupt.String(); got != "events/3/182,a.b-c/0/9223372036854775807" {
		t.Error(got)
	}
	for _, text := range []string{"events", "events/3", "events/3/182/1", "/3/182", "events/x/1", "events/3/-1", "events/3/182,", "events/2147483648/1"} {
		if c, err := load(with("KAFKA_SKIP_CORRUPT", text)); err == nil || strings.Contains(err.Error(), "SkipCorrupt") {
			t.Errorf("%s: %v, %v", text, c.Kafka.SkipCorrupt, err)
		}
	}
}
