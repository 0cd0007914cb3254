package main

import (
	"encoding/json"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"waterwheel/internal/check"
)

// TestCheckFindsWhatStopsEveryPartition runs check on real servers. The settings of the consumer must have no fault.
func TestCheckFindsWhatStopsEveryPartition(t *testing.T) {
	s := newStage(t)
	stop := s.consume()
	s.produce(50)
	s.verified()
	stop()
	with := func(name, value string) (int, string) {
		env := maps.Clone(s.env)
		env[name] = value
		code, stdout, _ := try(t, env, "check")
		return code, stdout
	}
	if code, out := with("LOG_LEVEL", "warn"); code != exitDone || !strings.Contains(out, "2 partitions of "+s.topic+" are claimed by the group "+s.topic) {
		t.Errorf("with the consumer's settings: exit code %d\n%s", code, out)
	}
	if code, out := with("KAFKA_GROUP_ID", s.topic+"-2"); code != exitFound || !strings.Contains(out, "waterwheel collection takeover") {
		t.Errorf("with another group: exit code %d\n%s", code, out)
	}
	if code, out := with("MONGODB_COLLECTION", "elsewhere"); code != exitFound || !strings.Contains(out, "other_collection") {
		t.Errorf("with another collection: exit code %d\n%s", code, out)
	}
}

func TestCheckOnServers(t *testing.T) {
	uri := os.Getenv("E2E_MONGODB_URI")
	if uri == "" {
		t.Skip("E2E_MONGODB_URI is not set: no MongoDB to test with")
	}
	r := newRedriving(t)
	r.write(t, r.deadLetters(100)...)
	r.env["MONGODB_URI"], r.env["MONGODB_DATABASE"] = uri, r.topic
	code, stdout, stderr := try(t, r.env, "check", "--sample", "50", "--output", "json")
	var view struct{ Findings check.Findings }
	if err := json.Unmarshal([]byte(stdout), &view); err != nil || code != exitDone {
		t.Fatalf("exit code %d, %v\n%s%s", code, err, stdout, stderr)
	}
	found := func(text string) bool {
		return slices.ContainsFunc(view.Findings, func(f check.Finding) bool {
			return f.State != check.Warning && f.State != check.Wrong && strings.Contains(f.Text, text)
		})
	}
	for _, text := range []string{"4 partitions, no records", "2 partitions, 110 offsets", "is not set up", "the user has all rights that run needs", "no offset is committed for " + r.topic} {
		if !found(text) {
			t.Errorf("%q is not found in %+v", text, view.Findings)
		}
	}
	r.records(t, 100)
	r.redrive(t) // letters are not events
	r.env["KAFKA_TOPICS"] += ",no-such-" + r.topic
	code, stdout, _ = try(t, r.env, "check", "--sample", "50")
	for _, text := range []string{"would become dead letters", "create the topic or correct KAFKA_TOPICS", "50            not_json"} {
		if code != exitFound || !strings.Contains(stdout, text) {
			t.Errorf("exit code %d, %q is missing in\n%s", code, text, stdout)
		}
	}
}
