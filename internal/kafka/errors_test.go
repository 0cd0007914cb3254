package kafka

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"

	"waterwheel/internal/kafka/recordbatch"
	"waterwheel/internal/kafka/wire"
	"waterwheel/internal/record"
)

func TestClassify(t *testing.T) {
	classes := map[Class][]error{
		None: {nil, kafkago.Error(0)},
		Retry: {
			kafkago.Error(5), kafkago.Error(6), kafkago.Error(7), kafkago.Error(9), kafkago.Error(13), kafkago.Error(14), kafkago.Error(15), kafkago.Error(16),
			kafkago.Error(74), kafkago.Error(75), kafkago.Error(78), kafkago.Error(-1), kafkago.Error(56), kafkago.Error(12345),
			io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET, os.ErrDeadlineExceeded, context.DeadlineExceeded,
			&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, protocol.NewErrNoLeader("t", 1), wire.ErrMalformed,
		},
		KeepCommit: {
			kafkago.Error(27), NoAnswer(protocol.OffsetCommit, record.Partition{}, io.ErrUnexpectedEOF), CodeError(protocol.OffsetCommit, partition("t", 1), 16),
		},
		GenerationOver: {kafkago.Error(22), kafkago.Error(25), CodeError(protocol.OffsetCommit, partition("t", 1), 22)},
		LookAtMetadata: {kafkago.Error(3), kafkago.Error(100), kafkago.Error(103), protocol.NewErrNoTopic("t"), protocol.NewErrNoPartition("t", 1)},
		OutOfRange:     {kafkago.Error(1)},
		StopIfPersists: {recordbatch.ErrCorrupt, kafkago.Error(2)},
		StopPartition:  {recordbatch.ErrUnreadable, kafkago.Error(29), kafkago.Error(30), kafkago.Error(43), kafkago.Error(76)},
		StopProgram: {
			kafkago.Error(82), kafkago.Error(26), kafkago.Error(23), kafkago.Error(24), kafkago.Error(33), kafkago.Error(34), kafkago.Error(35), kafkago.Error(58),
			kafkago.Error(17),
		},
	}
	for want, errs := range classes {
		for _, err := range errs {
			if got := Classify(err); got != want {
				t.Errorf("%v is of class %d, want %d", err, got, want)
			}
			if err == nil {
				continue
			}
			if got := Classify(fmt.Errorf("reading: %w", err)); got != want {
				t.Errorf("%v wrapped is of class %d, want %d", err, got, want)
			}
		}
	}
}

func TestErrorsSayWhatWasAskedAndWhatToDo(t *testing.T) {
	for _, test := range []struct {
		err  error
		want []string
	}{
		{CodeError(protocol.Fetch, partition("events", 3), 29), []string{"Fetch of events/3", "[29]", "grant READ"}},
		{CodeError(protocol.Metadata, partition("events", -1), 3), []string{"Metadata of events:", "[3]", "KAFKA_TOPICS"}},
		{CodeError(protocol.JoinGroup, record.Partition{}, 26), []string{"JoinGroup:", "[26]", "KAFKA_SESSION_TIMEOUT"}},
		{NoAnswer(protocol.Fetch, partition("events", 3), io.ErrUnexpectedEOF), []string{"Fetch of events/3: unexpected EOF"}},
		{NoAnswer(protocol.Metadata, record.Partition{}, context.DeadlineExceeded), []string{"Metadata: Kafka did not answer in time"}},
	} {
		for _, part := range test.want {
			if !strings.Contains(test.err.Error(), part) {
				t.Errorf("%q does not say %q", test.err, part)
			}
		}
	}
}

func TestErrorsKeepTheCode(t *testing.T) {
	err := fmt.Errorf("fetching: %w", CodeError(protocol.Fetch, partition("events", 0), 100))
	if !errors.Is(err, kafkago.UnknownTopicID) {
		t.Error(err)
	}
}

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

// TestPatienceIsForWhatMayPass checks that an outage is retried for a limited time, and that a refusal is final.
func TestPatienceIsForWhatMayPass(t *testing.T) {
	silence := errors.New("no answer")
	for name, c := range map[string]struct {
		errs []error // of the requests in order. The last one repeats.
		want error
		asks int
	}{
		"answered":  {[]error{nil}, nil, 1},
		"at last":   {[]error{silence, silence, nil}, nil, 3},
		"refused":   {[]error{silence, kafkago.TopicAuthorizationFailed}, kafkago.TopicAuthorizationFailed, 2},
		"no answer": {[]error{silence}, silence, patience},
	} {
		synctest.Test(t, func(t *testing.T) {
			asks := 0
			err := Patiently(t.Context(), func() error {
				asks++
				return c.errs[min(asks, len(c.errs))-1]
			})
			if !errors.Is(err, c.want) || asks != c.asks {
				t.Errorf("%s: %v after %d questions", name, err, asks)
			}
		})
	}
	interrupted := errors.New("interrupted")
	ctx, cancel := context.WithCancelCause(t.Context())
	if err := Patiently(ctx, func() error { cancel(interrupted); return silence }); !errors.Is(err, interrupted) {
		t.Errorf("interrupted: %v", err)
	}
}
