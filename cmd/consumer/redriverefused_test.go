package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/segmentio/kafka-go"
)

// configure sets a setting of the source topic.
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

// refusing runs the command where letters are refused, and returns what it says of them.
func (r *redriving) refusing(t *testing.T, args ...string) (view RedriveView, stderr string) {
	t.Helper()
	code, stdout, stderr := try(t, r.env, nil, append([]string{"dlq", "redrive", "--output", "json"}, args...)...)
	if err := json.Unmarshal([]byte(stdout), &view); code != exitFound || err != nil {
		t.Fatalf("exit code %d, %v\n%s%s", code, err, stdout, stderr)
	}
	return view, stderr
}

// A record that its topic takes no more stays a letter, and the rest goes back.
func TestRefusedLetterStaysAlone(t *testing.T) {
	const n, large = 100, 1000
	r := newRedriving(t)
	r.configure(t, "max.message.bytes", "2000")
	l := r.letter(large)
	l.Value = append(l.Value, strings.Repeat(" ", 5000)...)
	r.write(t, l)
	r.fill(t, n)
	view, stderr := r.refusing(t)
	if view.Refused != 1 || view.Driven != n || !strings.Contains(stderr, "The letter "+r.topic+".dlq/0/0 stays: "+r.topic+"/0 does not take it") {
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

// A topic that has become compacted takes no record without a key.
func TestCompactedTopicRefusesLettersWithoutKey(t *testing.T) {
	const n = 20 // each second one has no key
	r := newRedriving(t)
	r.configure(t, "cleanup.policy", "compact")
	r.fill(t, n)
	if view, stderr := r.refusing(t); view.Refused != n/2 || view.Driven != n/2 || strings.Count(stderr, " stays: ") != n/2 {
		t.Errorf("%+v\n%s", view, stderr)
	}
	r.isOnce(t, n/2)
}
