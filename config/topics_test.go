package config

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTopicsThatMatch(t *testing.T) {
	there := []string{
		"sensors.a", "sensors.b", "sensors.a.dlq", "sensors.gone.dlq", "other", "my.sensors.x", "__consumer_offsets", "__sensors", "named", "named.dlq", "lettersof.sensors.a",
	}
	for _, c := range []struct {
		topics, dlq string
		want        []string
	}{
		{`^sensors\.`, "{topic}.dlq", []string{"sensors.a", "sensors.b"}},
		{`^sensors\.a$,named`, "{topic}.dlq", []string{"named", "sensors.a"}},
		{`^sensors\.,absent`, "{topic}.dlq", []string{"absent", "sensors.a", "sensors.b"}},
		{`^.*`, "{topic}.dlq", []string{"lettersof.sensors.a", "my.sensors.x", "named", "other", "sensors.a", "sensors.b"}},
		{`^.*`, "lettersof.{topic}", []string{"my.sensors.x", "named", "named.dlq", "other", "sensors.a", "sensors.a.dlq", "sensors.b", "sensors.gone.dlq"}},
		{`^(named|other)`, "other", []string{"named", "named.dlq"}},
		{`^(named|other)`, "", []string{"named", "named.dlq", "other"}},
		{"named", "{topic}.dlq", []string{"named"}},
	} {
		settings, err := load(with("KAFKA_TOPICS", c.topics, "DLQ_TOPIC", c.dlq))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.want, settings.Matching(there)); diff != "" {
			t.Errorf("%s with the dead-letter topic %q: %s", c.topics, c.dlq, diff)
		}
		if got := settings.Kafka.HasPatterns(); got != strings.Contains(c.topics, "^") {
			t.Errorf("%s has patterns: %t", c.topics, got)
		}
	}
	for topics, want := range map[string]string{
		"^(": "is not a regular expression: error parsing regexp: missing closing ): `^(`", "^a,^a": "is listed twice", "sensors.*": "not a valid topic name: Kafka allows 1 to 249 of the characters a-z A-Z 0-9 . _ -, and not . or ... A regular expression must begin with ^", `^a(b){1,2}`: "A comma ends an entry",
	} {
		if lines := problems(t, with("KAFKA_TOPICS", topics)); len(lines) != 1 || !strings.Contains(lines[0], want) {
			t.Errorf("%s: %q, want one …%s…", topics, lines, want)
		}
	}
}

// TestTopicsInThePlaceOfPatterns checks that topics that match a pattern are refused if their collections collide, like topics
// that are named.
func TestTopicsInThePlaceOfPatterns(t *testing.T) {
	settings, err := load(with("KAFKA_TOPICS", "^s"))
	if err != nil {
		t.Fatal(err)
	}
	if c, err := settings.WithTopics([]string{"s1", "s2"}); err != nil || len(c.Kafka.Topics) != 2 || len(settings.Kafka.Topics) != 1 {
		t.Errorf("%v of %v, %v", c.Kafka.Topics, settings.Kafka.Topics, err)
	}
	_, err = settings.WithTopics([]string{"s1", "s1.buckets"})
	if _, ok := errors.AsType[*Error](err); !ok || !strings.Contains(err.Error(), `would both use the collection "s1.buckets"`) {
		t.Error(err)
	}
}
