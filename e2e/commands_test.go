package e2e_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"waterwheel/e2e/harness"
)

// TestCommands checks that the commands that end by themselves answer, have their effect, and can be repeated.
func TestCommands(t *testing.T) {
	t.Parallel()
	s := newStream(t, 2)
	run := func(settings harness.Settings, args ...string) string {
		t.Helper()
		c, err := harness.Start(world.binary, settings, args...)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Kill()
		if code, err := c.Wait(within(t, 30*time.Second)); err != nil || code != 0 {
			t.Fatalf("%v ended with code %d: %v\n%s", args, code, err, c.Log())
		}
		return c.Log()
	}
	if out := run(harness.Settings{}, "version"); !strings.Contains(out, "go1.") {
		t.Errorf("version printed %q", out)
	}
	secret := s.settings.With("MONGODB_URI", "mongodb://writer:s3cret@db.example/")
	if out := run(secret, "config"); !strings.Contains(out, s.topic) || strings.Contains(out, "s3cret") {
		t.Errorf("config printed %s", out)
	}
	for range 2 {
		run(s.settings, "init")
	}
	if _, ok, err := s.kafka.Topic(within(t, 10*time.Second), s.topic+".dlq"); !ok || err != nil {
		t.Errorf("init left no dead-letter topic: %v", err)
	}
}

// TestPages checks the pages of a running consumer.
func TestPages(t *testing.T) {
	t.Parallel()
	s := newStream(t, 2)
	if err := s.send(within(t, 20*time.Second), s.generator(10), 100); err != nil {
		t.Fatal(err)
	}
	c := s.start()
	s.awaitCommitted(c, 40*time.Second)
	ctx := within(t, 20*time.Second)
	if err := c.AwaitReady(ctx); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{"/healthz": "", "/readyz": "", "/": s.topic, "/api/status": s.topic, "/metrics": "waterwheel_build_info"} {
		status, body, err := c.Get(ctx, path)
		if err != nil || status != 200 || !strings.Contains(body, want) {
			t.Errorf("%s: status %d, %v, want %q in %s", path, status, err, want, body)
		}
		if path == "/api/status" && !json.Valid([]byte(body)) {
			t.Errorf("/api/status is no JSON: %s", body)
		}
	}
	if status, _, err := c.Get(ctx, "/nothing"); err != nil || status != 404 {
		t.Errorf("/nothing: status %d, %v", status, err)
	}
	s.terminate(c)
}

// TestTwoTopics has one consumer that stores two topics in two collections.
func TestTwoTopics(t *testing.T) {
	t.Parallel()
	first, second := newStream(t, 2), newStream(t, 3)
	for _, s := range []*stream{first, second} {
		if err := s.send(within(t, 20*time.Second), s.generator(20), 500); err != nil {
			t.Fatal(err)
		}
	}
	second.settings = second.settings.With("KAFKA_GROUP_ID", first.settings["KAFKA_GROUP_ID"])
	second.database = first.database
	c := first.start("KAFKA_TOPICS", first.topic+", "+second.topic)
	first.awaitCommitted(c, 40*time.Second)
	second.awaitCommitted(c, 40*time.Second)
	first.terminate(c)
	first.check()
	second.check()
}

// TestTopicsInOneCollection has topics whose names differ in dots and capitals. They are stored in collections of their own, and by
// another group in one collection together.
func TestTopicsInOneCollection(t *testing.T) {
	t.Parallel()
	s := newStream(t, 2)
	dotted := s.beside("Plant.Line-1."+s.topic, 3)
	s.sendReadings(300)
	dotted.sendReadings(500)
	s.settings = s.settings.With("KAFKA_TOPICS", s.topic+","+dotted.topic)
	for _, shared := range []bool{false, true} {
		if shared {
			s.settings = s.settings.With("MONGODB_COLLECTION", "Measurements", "KAFKA_GROUP_ID", s.topic+"-2")
		}
		dotted.settings = s.settings
		c := s.start()
		s.awaitCommitted(c, 40*time.Second)
		dotted.awaitCommitted(c, 40*time.Second)
		s.terminate(c)
		for topic, n := range map[string]int{s.topic: 300, dotted.topic: 500} {
			code, out := s.run("verify", "--content", "--topic", topic)
			if want := fmt.Sprintf("verified %d measurements of %s: %[1]d stored once", n, topic); code != 0 || !strings.Contains(out, want) {
				t.Errorf("in one collection %t: verify ended with code %d, without %q:\n%s", shared, code, want, out)
			}
		}
	}
	if code, out, errs := s.query(dotted.topic, "--format", "json"); code != 0 || strings.Count(out, "\n") != 500 {
		t.Errorf("query %s ended with code %d and %d lines:\n%s", dotted.topic, code, strings.Count(out, "\n"), errs)
	}
}
