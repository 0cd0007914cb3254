package mongodb

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver/topology"

	"waterwheel/internal/claim"
)

func TestDriverErrorsThatTellNothingWasSent(t *testing.T) {
	reset := driver.Error{Labels: []string{driver.NetworkError}, Wrapped: topology.ConnectionError{Wrapped: net.ErrClosed}}
	for name, c := range map[string]struct {
		err     error
		notSent bool
	}{
		"no server":     {topology.ServerSelectionError{Wrapped: context.DeadlineExceeded}, true},
		"pool is full":  {topology.WaitQueueTimeoutError{Wrapped: context.DeadlineExceeded}, true},
		"refused":       {mongo.CommandError{Wrapped: driver.Error{Wrapped: topology.ConnectionError{Wrapped: &dialError{Err: net.ErrClosed}}}}, true},
		"lapsed":        {mongo.CommandError{Wrapped: driver.Error{Wrapped: topology.ConnectionError{Wrapped: claim.ErrLapsed}}}, true},
		"reset":         {mongo.CommandError{Labels: reset.Labels, Wrapped: reset}, false},
		"deadline":      {context.DeadlineExceeded, false},
		"disconnecting": {mongo.ErrClientDisconnected, false},
		"a code":        {mongo.CommandError{Code: 10107}, false},
		"anything":      {fmt.Errorf("whatever"), false},
	} {
		var notSent *NotSentError
		if got := errors.As(portError(c.err), &notSent); got != c.notSent {
			t.Errorf("%s: not sent %v", name, got)
		}
	}
	var command *CommandError
	if err := portError(mongo.CommandError{Code: 10107, Message: "no"}); !errors.As(err, &command) || command.Code != 10107 {
		t.Errorf("a code is lost: %v", err)
	}
	if err := portError(driver.ErrDocumentTooLarge); !errors.As(err, &command) || command.Code != CodeObjectTooLarge {
		t.Errorf("too large a document: %v", err)
	}
}

func TestFailureTellsOutageFromRefusal(t *testing.T) {
	var (
		refused *RefusedError
		outage  *OutageError
	)
	if err := Failure("x", &CommandError{Code: 13}); !errors.As(err, &refused) {
		t.Errorf("unauthorized: %v", err)
	}
	if err := Failure("x", &CommandError{Code: 189}); !errors.As(err, &outage) {
		t.Errorf("primary stepped down: %v", err)
	}
	if err := Failure("x", &NotSentError{claim.ErrLapsed}); !errors.Is(err, claim.ErrLapsed) || errors.As(err, &outage) {
		t.Errorf("lapsed: %v", err)
	}
	if err := Failure("x", net.ErrClosed); !errors.As(err, &outage) || !errors.Is(err, net.ErrClosed) {
		t.Errorf("network: %v", err)
	}
}
