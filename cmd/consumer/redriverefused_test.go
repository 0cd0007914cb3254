package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"

	"waterwheel/internal/cli"
)

// configure changes a setting of the source topic.
func (r *redriving) configure(t *testing.T, name, value string) {
	t.Helper()
	response, err := r.client.IncrementalAlterConfigs(t.Context(), &kafka.IncrementalAlterConfigsRequest{
		Resources: []kafka.IncrementalAlterConfigsRequestResource{{
			ResourceType: kafka.ResourceTypeTopic, ResourceName: r.topic,
			Configs: []kafka.IncrementalAlterConfigsRequestConfig{{Name: name, Value: value, ConfigOperation: kafka.ConfigOperationSet}},
		}},
	})
	if err != nil || response.Resources[0].Error != nil {
		t.Fatalf("setting %s: %v, %v", name, err, response)
	}
}

// refusing runs the command where letters are refused, and returns its report about them.
func (r *redriving) refusing(t *testing.T, args ...string) (view cli.RedriveView, stderr string) {
	t.Helper()
	code, stdout, stderr := try(t, r.env, redriveArgs(append([]string{"--output", "json"}, args...))...)
	if err := json.Unmarshal([]byte(stdout), &view); code != exitFound || err != nil {
		t.Fatalf("exit code %d, %v\n%s%s", code, err, stdout, stderr)
	}
	return view, stderr
}

// TestRefusedLetterStaysAlone checks that a record that its topic no longer accepts stays a letter, and that the others are
// redriven.
func TestRefusedLetterStaysAlone(t *testing.T) {
	const n, large = 100, 1000
	r := newRedriving(t)
	r.records(t, large)
	r.configure(t, "max.message.bytes", "2000")
	l := r.deadLetter(large)
	l.Value = append(l.Value, strings.Repeat(" ", 5000)...)
	r.write(t, l)
	r.fill(t, n)
	view, stderr := r.refusing(t)
	if view.Refused != 1 || view.Driven != n || !strings.Contains(stderr, "The dead letter "+r.topic+".dlq/0/0 stays in its topic: "+r.topic+"/0 rejects the record") {
		t.Errorf("%+v\n%s", view, stderr)
	}
	r.isOnce(t, n)
	if again := r.redrive(t); again.Total != 0 {
		t.Errorf("again: %+v", again)
	}
	if other := r.redrive(t, "--reason", "not_json"); other.Driven != 0 || other.Refused != 0 {
		t.Errorf("another selection: %+v", other)
	}
}

// TestRefusedLetterComesBackByItsPlace checks that a refused letter can be redriven alone by its place when its topic accepts it.
// A letter that no redrive has processed cannot, because the next redrive would send it again.
func TestRefusedLetterComesBackByItsPlace(t *testing.T) {
	const large = 1000
	r := newRedriving(t)
	r.records(t, large)
	r.configure(t, "max.message.bytes", "2000")
	l := r.deadLetter(large)
	l.Value = append(l.Value, strings.Repeat(" ", 5000)...)
	r.write(t, l)
	place := r.topic + ".dlq/0/0"
	if code, _, stderr := try(t, r.env, "dlq", "redrive", "--yes", "--letter", place); code != exitFailed || !strings.Contains(stderr, "An ordinary redrive has not passed this one") {
		t.Errorf("before any re-drive: exit code %d\n%s", code, stderr)
	}
	_, _ = r.refusing(t)
	r.redrive(t, "--reason", "not_json") // another selection skips it
	if view, stderr := r.refusing(t, "--letter", place); view.Refused != 1 || !strings.Contains(stderr, place+" stays") {
		t.Errorf("it is taken: %+v\n%s", view, stderr)
	}
	r.configure(t, "max.message.bytes", "1000000")
	for deadline := time.Now().Add(30 * time.Second); ; {
		code, stdout, stderr := try(t, r.env, "dlq", "redrive", "--yes", "--letter", place)
		if code == exitDone && strings.Contains(stdout, "1  redriven") {
			break
		}
		if code != exitFound || time.Now().After(deadline) { // the broker may not have applied the setting yet
			t.Fatalf("exit code %d\n%s%s", code, stdout, stderr)
		}
	}
	if again := r.redrive(t); again.Driven != 0 {
		t.Errorf("at the end: %+v", again)
	}
	r.isOnce(t, 1)
	for where, says := range map[string]string{r.topic + ".dlq/0/1": "no such dead letter", r.topic + "/0/0": "is not a dead-letter topic"} {
		if code, _, stderr := try(t, r.env, "dlq", "redrive", "--yes", "--letter", where); code == exitDone || !strings.Contains(stderr, says) {
			t.Errorf("%s: exit code %d\n%s", where, code, stderr)
		}
	}
}

// TestCompactedTopicRefusesLettersWithoutKey checks a topic that has become compacted, which accepts no record without a key.
func TestCompactedTopicRefusesLettersWithoutKey(t *testing.T) {
	const n = 20 // every second one has no key
	r := newRedriving(t)
	r.records(t, n)
	r.configure(t, "cleanup.policy", "compact")
	r.fill(t, n)
	if view, stderr := r.refusing(t); view.Refused != n/2 || view.Driven != n/2 || strings.Count(stderr, " stays in its topic: ") != n/2 {
		t.Errorf("%+v\n%s", view, stderr)
	}
	r.isOnce(t, n/2)
}
