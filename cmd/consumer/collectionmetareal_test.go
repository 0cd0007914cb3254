package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/cli"
	"waterwheel/internal/timeseries"
	"waterwheel/reader"
)

// metas counts the measurements of each meta in buckets and in segments, as readers find them.
func (s *stage) metas() map[string]int {
	s.t.Helper()
	series, err := reader.Open(s.t.Context(), s.buckets.Database(), s.topic)
	s.change(err)
	counts := map[string]int{}
	for m, err := range series.Find(s.t.Context(), reader.Query{}) {
		s.change(err)
		meta := "(no meta)"
		if !m.Meta.IsZero() {
			document, err := bson.MarshalExtJSON(bson.D{{Key: "m", Value: m.Meta}}, false, false)
			s.change(err)
			meta = strings.TrimSuffix(strings.TrimPrefix(string(document), `{"m":`), `}`)
		}
		counts[meta]++
	}
	return counts
}

// hosts counts the measurements of each meta.host. Those without it are counted under "".
func (s *stage) hosts() map[string]int {
	s.t.Helper()
	counts := map[string]int{}
	for meta, n := range s.metas() {
		var fields struct{ Host *int }
		_ = json.Unmarshal([]byte(meta), &fields) // an error means that there is none
		host := ""
		if fields.Host != nil {
			host = fmt.Sprint(*fields.Host)
		}
		counts[host] += n
	}
	return counts
}

// TestUpdateAndDeleteMetaOnServers changes and deletes whole series as a user does: first with --dry-run, then with --yes.
func TestUpdateAndDeleteMetaOnServers(t *testing.T) {
	for _, segments := range []string{"off", "on"} {
		t.Run("segments "+segments, func(t *testing.T) { updateAndDeleteMeta(t, segments) })
	}
}

func updateAndDeleteMeta(t *testing.T, segments string) {
	s := newStage(t)
	s.env["SEGMENTS"] = segments
	with := "with %d measurements"
	if segments == "on" {
		s.env["COMPACT_INTERVAL"], s.env["COMPACT_VISIBILITY_DELAY"] = "1s", "2s"
	}
	stop := s.consume()
	s.produce(400)
	s.verified()
	s.compacted()
	stop()
	before := s.hosts()
	if len(before) != 5 {
		t.Fatalf("series: %v", before)
	}
	host := func(n int) string { return fmt.Sprintf(`{"meta.host": %d}`, n) }
	update := func(code int, says, filter, update string, more ...string) string {
		t.Helper()
		return s.command(code, says, append([]string{"collection", "update-meta", "--filter", filter, "--update", update}, more...)...)
	}
	remove := func(code int, says, filter string, more ...string) string {
		t.Helper()
		return s.command(code, says, append([]string{"collection", "delete-meta", "--filter", filter}, more...)...)
	}

	// These commands must not write.
	count := fmt.Sprintf(with+" of 1 series would be changed", before["1"])
	out := update(exitDone, count, host(1), `{"$set": {"meta.area": "x"}}`, "--dry-run", "--closed")
	if !strings.Contains(out, `{"area":"x","host":1}`) || !strings.Contains(out, "Nothing was changed.") {
		t.Errorf("the plan does not show the meta as it is stored:\n%s", out)
	}
	if segments == "off" {
		update(exitDone, "--closed includes them", host(1), `{"$set": {"meta.area": "x"}}`, "--dry-run")
	}
	update(exitDone, "merges with another series", host(1), `{"$set": {"meta.host": 2}}`, "--dry-run")
	update(exitDone, "would change the series again", `{}`, `{"$inc": {"meta.host": 1}}`, "--dry-run")
	update(exitFailed, "Repeat the command with --yes", host(1), `{"$set": {"meta.area": "x"}}`)
	update(exitFailed, "a regex cannot name a series", host(1), `{"$set": {"meta.area": {"$regularExpression": {"pattern": "x", "options": ""}}}}`, "--yes")
	update(exitFailed, "more than 8192", host(1), `{"$set": {"meta.area": "`+strings.Repeat("x", 9000)+`"}}`, "--yes")
	update(exitFailed, "the update is refused for 1 series of 1", host(1), `{"$inc": {"meta": 1}}`, "--yes")
	update(exitUsage, "a pipeline is not supported", host(1), `[{"$set": {"meta.area": 1}}]`, "--yes")
	update(exitUsage, "a replacement is not supported", host(1), `{"meta": {"host": 7}}`, "--yes")
	update(exitUsage, "x is not part of the meta", host(1), `{"$set": {"x": 1}}`, "--yes")
	update(exitUsage, "is not JSON", host(1), `{`, "--yes")
	update(exitUsage, "--update is missing", host(1), ``, "--yes")
	update(exitUsage, "cannot be combined", host(1), `{"$set": {"meta.area": 1}}`, "--yes", "--dry-run")
	remove(exitUsage, "is not a JSON object", `[]`, "--yes")
	remove(exitUsage, "x is not part of the meta", `{"x": 1}`, "--yes")
	remove(exitUsage, "--filter is missing", ``, "--yes")
	remove(exitFailed, "Repeat the command with --yes", host(1))
	remove(exitDone, fmt.Sprintf(with+" of 1 series would be deleted", before["1"]), host(1), "--dry-run", "--closed")
	if got := s.hosts(); fmt.Sprint(got) != fmt.Sprint(before) {
		t.Fatalf("something was written: %v, before %v", got, before)
	}

	update(exitDone, fmt.Sprintf(with+" changed.", before["1"]), host(1), `{"$set": {"meta.host": 7, "meta.area": {"b": 1, "a": 2}}}`, "--yes", "--closed")
	if n := s.metas()[`{"area":{"a":2,"b":1},"host":7}`]; n != before["1"] {
		t.Errorf("%d measurements have the meta in its normal form: %v", n, s.metas())
	}
	update(exitDone, "0 series would be changed", host(1), `{"$set": {"meta.host": 7}}`, "--dry-run")
	update(exitDone, "changed.", `{}`, `{"$inc": {"meta.host": 1}}`, "--yes", "--closed") // 8, 1, 3, 4, 5
	update(exitDone, "(no meta)", host(3), `{"$unset": {"meta": ""}}`, "--yes", "--closed")
	want := map[string]int{"8": before["1"], "1": before["0"], "": before["2"], "4": before["3"], "5": before["4"]}
	if got := s.hosts(); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("after the updates: %v, want %v", got, want)
	}

	var views []cli.MetaDeletion
	out = remove(exitDone, "", host(8), "--yes", "--closed", "--output", "json")
	if err := json.Unmarshal([]byte(out), &views); err != nil || len(views) != 1 || views[0].Edited == nil || views[0].Edited.Done != views[0].Selected {
		t.Errorf("%v in %s", err, out)
	}
	delete(want, "8")
	if got := s.hosts(); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("after the deletion: %v, want %v", got, want)
	}
	changed := s.valid - before["1"]
	says := fmt.Sprintf("verified %d measurements of %s: %d stored once, ", s.valid, s.topic, changed)
	s.verifies(says, fmt.Sprintf(" 0 missing, 0 doubled, 0 unknown, 0 dead letters missing, 0 damaged buckets, 0 different, %d deleted, %d metas changed\n", before["1"], changed))

	// When the whole topic is read again, deleted data and all other data must not be stored again.
	s.reset()
	stop = s.consume()
	s.verifies(says, fmt.Sprintf("%d deleted, %d metas changed\n", before["1"], changed))
	stop()
	if got := s.hosts(); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("after a reset: %v, want %v", got, want)
	}
}

// compacted waits until all segments have ended.
func (s *stage) compacted() {
	s.t.Helper()
	open := bson.D{{Key: timeseries.PathOwner, Value: bson.D{{Key: "$exists", Value: true}}}, {Key: timeseries.PathVisibleUntil, Value: bson.D{{Key: "$exists", Value: false}}}}
	for deadline := time.Now().Add(60 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		n, err := s.buckets.CountDocuments(s.t.Context(), open)
		s.change(err)
		if n == 0 {
			return
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("%d segments have not ended", n)
		}
	}
}

// TestMetaCommandsSayWhatToStart checks that the commands edit nothing without a consumer, because the measurements in segments
// stay there.
func TestMetaCommandsSayWhatToStart(t *testing.T) {
	s := newStage(t)
	s.env["SEGMENTS"], s.env["COMPACT_INTERVAL"] = "on", "1h"
	stop := s.consume()
	s.produce(100)
	s.verified()
	stop()
	before := fmt.Sprint(s.metas())
	s.command(exitFailed, "start `waterwheel run`", "collection", "update-meta", "--filter", `{}`, "--update", `{"$set": {"meta.area": "x"}}`, "--yes")
	says := s.command(exitDone, "0 buckets with 0 measurements of 0 series would be changed", "collection", "update-meta", "--filter", `{}`, "--update", `{"$set": {"meta.area": "x"}}`, "--dry-run")
	if !strings.Contains(says, "Not counted: measurements in ") {
		t.Errorf("the dry run is silent about segments:\n%s", says)
	}
	s.command(exitDone, "Not counted: measurements in ", "collection", "delete-meta", "--filter", `{}`, "--dry-run")
	if now := fmt.Sprint(s.metas()); now != before {
		t.Errorf("something was edited: %s, before %s", now, before)
	}
}

// verifies waits until verify finds no fault, and checks its output.
func (s *stage) verifies(says ...string) {
	s.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; {
		code, out := s.verify("--content")
		silent := slices.IndexFunc(says, func(one string) bool { return !strings.Contains(out, one) })
		if code == exitDone && silent < 0 {
			return
		}
		if code == exitFound || time.Now().After(deadline) {
			s.t.Fatalf("exit code %d, not all of %q:\n%s", code, says, out)
		}
	}
}

// reset sets the offsets of the group to the beginning while it has no members.
func (s *stage) reset() {
	s.t.Helper()
	answer, err := s.admin.OffsetCommit(s.t.Context(), &kafka.OffsetCommitRequest{
		Addr: s.admin.Addr, GroupID: s.env["KAFKA_GROUP_ID"], GenerationID: -1,
		Topics: map[string][]kafka.OffsetCommit{s.topic: {{Partition: 0}, {Partition: 1}}},
	})
	s.change(err)
	for _, p := range answer.Topics[s.topic] {
		s.change(p.Error)
	}
}
