package source

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

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
)

func TestClassify(t *testing.T) {
	classes := map[Class][]error{
		None: {nil, kafka.Error(0)},
		Retry: {
			kafka.Error(5), kafka.Error(6), kafka.Error(7), kafka.Error(9), kafka.Error(13), kafka.Error(14), kafka.Error(15), kafka.Error(16),
			kafka.Error(74), kafka.Error(75), kafka.Error(78), kafka.Error(-1), kafka.Error(56), kafka.Error(12345),
			io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET, os.ErrDeadlineExceeded, context.DeadlineExceeded,
			&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, protocol.NewErrNoLeader("t", 1), errMalformed,
		},
		KeepCommit: {
			kafka.Error(27), unanswered(protocol.OffsetCommit, "", -1, io.ErrUnexpectedEOF), answered(protocol.OffsetCommit, "t", 1, 16),
		},
		GenerationOver: {kafka.Error(22), kafka.Error(25), answered(protocol.OffsetCommit, "t", 1, 22)},
		LookAtMetadata: {kafka.Error(3), kafka.Error(100), kafka.Error(103), protocol.NewErrNoTopic("t"), protocol.NewErrNoPartition("t", 1)},
		OutOfRange:     {kafka.Error(1)},
		StopIfPersists: {ErrCorrupt, kafka.Error(2)},
		StopPartition:  {ErrUnreadable, errTooLarge, kafka.Error(29), kafka.Error(30), kafka.Error(43), kafka.Error(76)},
		StopProgram: {
			kafka.Error(82), kafka.Error(26), kafka.Error(23), kafka.Error(24), kafka.Error(33), kafka.Error(34), kafka.Error(35), kafka.Error(58),
			kafka.Error(17),
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
		{answered(protocol.Fetch, "events", 3, 29), []string{"Fetch of events/3", "[29]", "grant READ"}},
		{answered(protocol.Metadata, "events", -1, 3), []string{"Metadata of events:", "[3]", "KAFKA_TOPICS"}},
		{answered(protocol.JoinGroup, "", -1, 26), []string{"JoinGroup:", "[26]", "KAFKA_SESSION_TIMEOUT"}},
		{unanswered(protocol.Fetch, "events", 3, io.ErrUnexpectedEOF), []string{"Fetch of events/3: unexpected EOF"}},
	} {
		for _, part := range test.want {
			if !strings.Contains(test.err.Error(), part) {
				t.Errorf("%q does not say %q", test.err, part)
			}
		}
	}
}

func TestErrorsKeepTheCode(t *testing.T) {
	err := fmt.Errorf("fetching: %w", answered(protocol.Fetch, "events", 0, 100))
	if !errors.Is(err, kafka.UnknownTopicID) {
		t.Error(err)
	}
}
