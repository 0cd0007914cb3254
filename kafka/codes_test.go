package kafka

import (
	"strings"
	"testing"

	kafkago "github.com/segmentio/kafka-go"
)

// TestWhatComesOfEachCode tries every code that a broker can send, and more: what is on no list is retried.
func TestWhatComesOfEachCode(t *testing.T) {
	lists := map[Class][]kafkago.Error{
		None:           {0},
		OutOfRange:     {1},
		StopIfPersists: {2},
		LookAtMetadata: {3, 100, 103},
		KeepCommit:     {27},
		GenerationOver: {22, 25},
		StopPartition:  {12, 29, 30, 31, 43, 76},
		StopProgram:    {17, 23, 24, 26, 33, 34, 35, 58, 82},
	}
	want := map[kafkago.Error]Class{}
	for class, codes := range lists {
		for _, code := range codes {
			want[code] = class
		}
	}
	for code := kafkago.Error(-1); code < 1000; code++ {
		expected, listed := want[code]
		if !listed {
			expected = Retry
		}
		if got := Classify(code); got != expected {
			t.Errorf("%v is of class %d, want %d", code, got, expected)
		}
	}
}

// TestEveryRowIsOfUse: each code has one row, what stops the program says what to change, and the outages that brokers are
// known to have are all there.
func TestEveryRowIsOfUse(t *testing.T) {
	seen := map[kafkago.Error]bool{}
	for _, a := range answers {
		if seen[a.code] {
			t.Errorf("%v has two rows", a.code)
		}
		seen[a.code] = true
		if a.class == StopProgram && a.advice == "" {
			t.Errorf("%v stops the program and has no advice", a.code)
		}
	}
	for name, codes := range map[string][]kafkago.Error{
		"leaders":      {5, 6, 74, 75, 78},
		"brokers":      {7, 8, 13, -1},
		"replicas":     {9, 19, 20},
		"disks":        {56},
		"coordinators": {14, 15, 16},
	} {
		for _, code := range codes {
			if !seen[code] {
				t.Errorf("%s: %v has no row", name, code)
			}
		}
	}
}

// TestARefusedGroupMayBeARedrives: its name is another than KAFKA_GROUP_ID, and so is what is to be granted.
func TestARefusedGroupMayBeARedrives(t *testing.T) {
	if advice := answerOf(kafkago.GroupAuthorizationFailed).advice; !strings.Contains(advice, "KAFKA_GROUP_ID.redrive") {
		t.Errorf("the advice is %q", advice)
	}
}
