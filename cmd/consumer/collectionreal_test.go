package main

import (
	"encoding/json"
	"strings"
	"testing"

	"waterwheel/internal/cli"
)

// command runs a command and checks its exit code and its output.
func (s *stage) command(code int, says string, args ...string) (out string) {
	s.t.Helper()
	got, stdout, stderr := try(s.t, s.env, args...)
	if out = stdout + stderr; got != code || !strings.Contains(out, says) {
		s.t.Fatalf("%v: exit code %d, want %d and %q:\n%s", args, got, code, says, out)
	}
	return out
}

// TestTakeoverOnServers lets a second group continue where the first one stopped. Each record must be stored once.
func TestTakeoverOnServers(t *testing.T) {
	s := newStage(t)
	s.env["KAFKA_LEASE"] = "500ms" // a takeover waits for it
	stop := s.consume()
	s.produce(500)
	s.verified()
	former := s.env["KAFKA_GROUP_ID"]
	s.command(exitFailed, `Kafka knows members of "`+former+`" (1 member)`, "collection", "takeover", "--to", former+"-2")
	s.command(exitDone, "belongs to the group already", "collection", "takeover")
	stop()
	s.produce(100)

	s.env["KAFKA_GROUP_ID"] = former + "-2"
	s.command(exitDone, "would take over 2 partitions", "collection", "takeover", "--dry-run")
	s.command(exitDone, `The group "`+former+`-2" has taken over 2 partitions`, "collection", "takeover")
	out := s.command(exitDone, "", "collection", "show", "--output", "json")
	var views []cli.CollectionView
	if err := json.Unmarshal([]byte(out), &views); err != nil || len(views) != 1 || len(views[0].Partitions) != 2 {
		t.Fatalf("%v in %s", err, out)
	}
	for _, p := range views[0].Partitions {
		if p.Claim == nil || p.Claim.Group != former+"-2" || p.Claim.Released || p.Buckets+p.Segments == 0 || p.Measurements+p.InSegments == 0 {
			t.Errorf("%+v, claim %+v", p, p.Claim)
		}
	}
	defer s.consume()()
	s.verified()
}

// TestSetGranularityOnServers changes the bucketing while a consumer runs, and starts another one with the new settings.
func TestSetGranularityOnServers(t *testing.T) {
	s := newStage(t)
	stop := s.consume()
	s.produce(200)
	s.verified()
	before := s.optionsVersion()
	s.command(exitDone, "no command can shorten the time span of buckets again", "collection", "set-granularity", "minutes", "--dry-run")
	s.command(exitFailed, "Repeat the command with --yes", "collection", "set-granularity", "minutes")
	if now := s.optionsVersion(); now != before {
		t.Errorf("the options have version %d, before nothing was changed they had %d", now, before)
	}
	s.command(exitDone, "Set MONGODB_GRANULARITY=minutes", "collection", "set-granularity", "minutes", "--yes")
	s.command(exitDone, "MONGODB_GRANULARITY and MONGODB_BUCKET_MAX_SPAN ignored: 1h (seconds) in the settings, but 24h (minutes) in the collection", "check")
	s.command(exitFailed, "cannot become smaller", "collection", "set-granularity", "seconds", "--yes")
	if after := s.optionsVersion(); after != before+1 {
		t.Errorf("the options have version %d, before they had %d", after, before)
	}
	stop()
	s.env["MONGODB_GRANULARITY"] = "minutes"
	defer s.consume()()
	s.produce(200)
	s.verified()
}

// optionsVersion returns the version of the options of the collection.
func (s *stage) optionsVersion() int32 {
	s.t.Helper()
	out := s.command(exitDone, "", "collection", "show", "--output", "json")
	var views []cli.CollectionView
	if err := json.Unmarshal([]byte(out), &views); err != nil || len(views) != 1 {
		s.t.Fatalf("%v in %s", err, out)
	}
	return views[0].Version
}

// TestExpiryOnServers sets and removes an expiry while a consumer runs, and deletes once the data before a time.
func TestExpiryOnServers(t *testing.T) {
	s := newStage(t)
	stop := s.consume()
	s.produce(200)
	s.verified()
	s.command(exitFailed, "keeps measurements for ever: give --before", "collection", "expire", "--yes")
	s.command(exitFailed, "0 buckets with 0 measurements would be deleted now, and more later, as they expire", "collection", "set-expiry", "87600h")
	s.command(exitDone, "never", "collection", "show")
	s.command(exitDone, "measurements are deleted after 3650d", "collection", "set-expiry", "87600h", "--yes")
	s.command(exitDone, "as before. Nothing was changed.", "collection", "set-expiry", "87600h")
	s.command(exitDone, "MONGODB_EXPIRE_AFTER ignored: never in the settings, but 3650d in the collection", "check")
	s.command(exitDone, "after 3650d", "collection", "show")
	s.command(exitDone, "0 buckets with 0 measurements", "collection", "expire", "--dry-run")
	s.command(exitFailed, "Repeat the command with --yes", "collection", "expire", "--before", "1990-01-01T00:00:00Z")
	s.command(exitFailed, "is in the future", "collection", "expire", "--before", "2990-01-01T00:00:00Z", "--yes")
	stop()
	defer s.consume()() // its settings do not mention an expiry
	s.produce(100)
	s.verified()
	s.command(exitDone, "measurements are kept for ever; before: ", "collection", "set-expiry", "none")
	t.Log(s.command(exitDone, "Done: ", "collection", "expire", "--before", "2026-01-01T00:00:00Z", "--yes"))
}
