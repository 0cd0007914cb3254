package e2e_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/e2e/check"
	"waterwheel/e2e/harness"
	"waterwheel/reader"
)

// These tests run `waterwheel collection update-meta` and `delete-meta` while consumers write the same buckets.

// edit runs one of the commands, and fails the test if it fails.
func (s *stream) edit(args ...string) string {
	s.t.Helper()
	return s.succeed(append([]string{"collection"}, args...)...)
}

// succeed runs a command to its end, and fails the test if it fails.
func (s *stream) succeed(args ...string) string {
	s.t.Helper()
	c, err := harness.Start(world.binary, s.settings, args...)
	if err != nil {
		s.t.Fatal(err)
	}
	defer c.Kill()
	if code, err := c.Wait(within(s.t, 2*time.Minute)); err != nil || code != 0 {
		s.t.Fatalf("%v ended with code %d: %v\n%s", args, code, err, c.Log())
	}
	return c.Log()
}

// sendMeanwhile produces records in portions while edits run. It returns when enough were sent and the edits are done.
func (s *stream) sendMeanwhile(portions, portion int, edit func(n int)) {
	s.t.Helper()
	ctx, sent := within(s.t, 3*time.Minute), make(chan error, 1)
	g := s.generator(20)
	go func() {
		for range portions {
			if err := s.send(ctx, g, portion); err != nil {
				sent <- err
				return
			}
			time.Sleep(200 * time.Millisecond)
		}
		sent <- nil
	}()
	for n := 0; ; n++ {
		select {
		case err := <-sent:
			if err != nil {
				s.t.Fatal(err)
			}
			s.t.Logf("%d edits beside %d records", n, portions*portion)
			for ; n < 3; n++ { // the machine is slow
				edit(n)
			}
			return
		default:
			edit(n)
		}
	}
}

// portions is the number and size of the portions. They are smaller for the embedded MongoDB, which scans all documents for each
// query.
func portions() (n, of int) {
	if world.servers.GivenMongo {
		return 40, 500
	}
	return 15, 100
}

// conflicts returns as text how many writes met an edited bucket.
func (s *stream) conflicts(c *harness.Consumer) string {
	_, metrics, err := c.Get(within(s.t, 10*time.Second), "/metrics")
	if err != nil {
		s.t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(metrics) {
		if strings.HasPrefix(line, "waterwheel_writes_total{") && strings.Contains(line, `"conflict"`) {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return strings.Join(lines, ", ")
}

// inBothForms runs a test with buckets only, and with segments that are compacted meanwhile.
func inBothForms(t *testing.T, test func(t *testing.T, settings []string)) {
	t.Run("buckets", func(t *testing.T) { test(t, []string{"SEGMENTS", "off", "BUCKET_MAX_COUNT", "40"}) })
	t.Run("segments", func(t *testing.T) {
		needCompaction(t)
		test(t, append(inSegments, "COMPACT_VISIBILITY_DELAY", "5s")) // edits wait for it
	})
}

// TestMetaIsUpdatedUnderLoad changes metas back and forth while consumers write. In the end every record is stored once, in a
// bucket or segment of its series.
func TestMetaIsUpdatedUnderLoad(t *testing.T) {
	inBothForms(t, func(t *testing.T, settings []string) {
		s := newStream(t, 2)
		c := s.start(settings...)
		if err := c.AwaitReady(within(t, 30*time.Second)); err != nil { // the collection does not exist before
			t.Fatal(err)
		}
		n, of := portions()
		const forth, back = `{"$set": {"meta.zone": {"b": 1, "a": 2}, "meta.area": "x"}}`, `{"$unset": {"meta.zone": "", "meta.area": ""}}`
		s.sendMeanwhile(n, of, func(n int) {
			args := []string{"update-meta", "--yes", "--filter", `{"meta.id": {"$gte": 1}}`, "--update", forth}
			if n%2 == 1 {
				args[len(args)-1] = back
			}
			if n%3 > 0 {
				args = append(args, "--closed")
			}
			s.edit(args...)
		})
		s.awaitCommitted(c, 2*time.Minute)
		t.Log(s.conflicts(c), s.compactions(c))
		if out := s.edit("update-meta", "--yes", "--closed", "--filter", `{"meta.area": "x"}`, "--update", back); !strings.Contains(out, "Done:") {
			t.Errorf("the last update says:\n%s", out)
		}
		s.terminate(c)
		s.check()
		t.Log(s.succeed("verify", "--content")) // metas that are changed, or changed back, are not wrong
	})
}

// TestSeriesAreDeletedUnderLoad deletes two series again and again while consumers write. In the end nothing is doubled, and
// everything of the other series is stored.
func TestSeriesAreDeletedUnderLoad(t *testing.T) {
	inBothForms(t, func(t *testing.T, settings []string) {
		s := newStream(t, 2)
		c := s.start(settings...)
		if err := c.AwaitReady(within(t, 30*time.Second)); err != nil { // the collection does not exist before
			t.Fatal(err)
		}
		n, of := portions()
		s.sendMeanwhile(n, of, func(n int) {
			args := []string{"delete-meta", "--yes", "--filter", `{"meta.id": {"$in": [8, 10]}}`}
			if n%2 == 1 {
				args = append(args, "--closed")
			}
			s.edit(args...)
		})
		s.awaitCommitted(c, 2*time.Minute)
		t.Log(s.conflicts(c), s.compactions(c))
		s.terminate(c)
		report, err := check.Run(within(t, time.Minute), s.source())
		if err != nil {
			t.Fatal(err)
		}
		t.Log(report)
		sent, stored := s.sentOf(8, 10), s.storedOf(8, 10)
		if report.Doubled > 0 || report.Unknown > 0 || report.Missing != report.FaultCount || report.Uncommitted > 0 {
			t.Errorf("%sbeside deletions: %v", check.Verdict, report.Err())
		}
		if report.Missing != sent-stored {
			t.Errorf("%s%d measurements are missing, but only %d of %d of the deleted series", check.Verdict, report.Missing, sent-stored, sent)
		}
		if stored == sent {
			t.Errorf("nothing of %d measurements was deleted", sent)
		}
		if out, says := s.succeed("verify"), fmt.Sprintf(", %d deleted", sent-stored); !strings.Contains(out, says) || !strings.Contains(out, " 0 missing, 0 doubled, ") {
			t.Errorf("%snot %q in\n%s", check.Verdict, says, out)
		}
	})
}

// compactions returns as text how many compactions were finished and rolled back.
func (s *stream) compactions(c *harness.Consumer) string {
	metrics, err := c.Metrics(within(s.t, 10*time.Second))
	if err != nil {
		s.t.Fatal(err)
	}
	of := func(outcome string) float64 { return metrics.Sum("waterwheel_compactions_total", "outcome", outcome) }
	return fmt.Sprintf("%.0f compactions finished, %.0f rolled back", of("finished"), of("rolled_back"))
}

// sentOf returns the number of produced measurements of some series.
func (s *stream) sentOf(series ...int32) (n int) {
	s.t.Helper()
	ctx := within(s.t, time.Minute)
	topic, _, err := s.kafka.Topic(ctx, s.topic)
	if err != nil {
		s.t.Fatal(err)
	}
	records, err := s.kafka.Read(ctx, topic)
	if err != nil {
		s.t.Fatal(err)
	}
	of := map[string]bool{}
	for _, id := range series {
		of[fmt.Sprint(id)] = true
	}
	for _, r := range records {
		fate, _ := s.book.Fate(r.Value)
		for _, part := range fate.Parts {
			if part.Reading == nil {
				continue
			}
			meta, _ := part.Reading.Meta.(bson.D)
			for _, field := range meta {
				if field.Key == "id" && of[fmt.Sprint(field.Value)] {
					n++
				}
			}
		}
	}
	return n
}

// storedOf returns the number of stored measurements of some series.
func (s *stream) storedOf(series ...int32) (n int) {
	s.t.Helper()
	for m, err := range s.open(world.servers.MongoURI).Find(within(s.t, time.Minute), reader.Query{}) {
		if err != nil {
			s.t.Fatal(err)
		}
		meta, _ := m.Meta.DocumentOK()
		if id, ok := meta.Lookup("id").AsInt64OK(); ok && slices.Contains(series, int32(id)) {
			n++
		}
	}
	return n
}
