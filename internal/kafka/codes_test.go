package kafka

import (
	"strings"
	"testing"

	kafkago "github.com/segmentio/kafka-go"
)

// TestWhatComesOfEachCode tries every code that a broker can send, and more. A code without a list is retried.
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

// TestEveryRowIsOfUse checks that no row says the same as a missing row, and that an error that stops the program has advice.
func TestEveryRowIsOfUse(t *testing.T) {
	for code, a := range answers {
		if a == answerOf(12345) {
			t.Errorf("%v has a row that changes nothing", code)
		}
		if a.class == StopProgram && a.advice == "" {
			t.Errorf("%v stops the program and has no advice", code)
		}
	}
}

// TestARefusedGroupMayBeARedrives checks the advice. A redrive's group differs from KAFKA_GROUP_ID, and needs another grant.
func TestARefusedGroupMayBeARedrives(t *testing.T) {
	if advice := answerOf(kafkago.GroupAuthorizationFailed).advice; !strings.Contains(advice, "KAFKA_GROUP_ID.redrive") {
		t.Errorf("the advice is %q", advice)
	}
}
