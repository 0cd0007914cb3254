package main

import (
	"maps"
	"strings"
	"testing"
)

// TestCheckFindsWhatStopsEveryPartition compares on real servers: the same settings find nothing wrong.
func TestCheckFindsWhatStopsEveryPartition(t *testing.T) {
	s := newStage(t)
	stop := s.consume()
	s.produce(50)
	s.verified()
	stop()
	check := func(name, value string) (int, string) {
		env := maps.Clone(s.env)
		env[name] = value
		code, stdout, _ := try(t, env, nil, "check")
		return code, stdout
	}
	if code, out := check("LOG_LEVEL", "warn"); code != exitDone || !strings.Contains(out, "2 partitions of "+s.topic+" are claimed by the group "+s.topic) {
		t.Errorf("with the consumer's settings: exit code %d\n%s", code, out)
	}
	if code, out := check("KAFKA_GROUP_ID", s.topic+"-2"); code != exitFound || !strings.Contains(out, "waterwheel collection takeover") {
		t.Errorf("with another group: exit code %d\n%s", code, out)
	}
	if code, out := check("MONGODB_COLLECTION", "elsewhere"); code != exitFound || !strings.Contains(out, "other_collection") {
		t.Errorf("with another collection: exit code %d\n%s", code, out)
	}
}
