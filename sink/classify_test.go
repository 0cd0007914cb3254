package sink

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver/topology"

	"waterwheel/bucketer"
	"waterwheel/internal/claim"
)

func TestClassifyByClosedLists(t *testing.T) {
	network := errors.New("connection reset")
	for _, c := range []struct {
		name  string
		n     int
		reply Reply
		err   error
		want  []bucketer.Result
	}{
		{name: "all executed", n: 2, reply: Reply{N: 2}, want: []bucketer.Result{bucketer.Applied, bucketer.Applied}},
		{name: "fewer found", n: 3, reply: Reply{N: 2}, want: []bucketer.Result{bucketer.Unknown, bucketer.Unknown, bucketer.Unknown}},
		{name: "more than were asked for", n: 1, reply: Reply{N: 2}, want: []bucketer.Result{bucketer.Unknown}},
		{
			name: "one refused", n: 3, reply: Reply{N: 2, Errors: []WriteError{{Index: 1, Code: 121}}},
			want: []bucketer.Result{bucketer.Applied, bucketer.Refused, bucketer.Applied},
		},
		{
			name: "one refused, one not found", n: 3, reply: Reply{N: 1, Errors: []WriteError{{Index: 1, Code: 57}}},
			want: []bucketer.Result{bucketer.Unknown, bucketer.Refused, bucketer.Unknown},
		},
		{
			name: "a duplicate", n: 2, reply: Reply{N: 1, Errors: []WriteError{{Index: 0, Code: 11000}}},
			want: []bucketer.Result{bucketer.Unknown, bucketer.Applied},
		},
		{
			name: "a code on no list", n: 2, reply: Reply{N: 1, Errors: []WriteError{{Index: 1, Code: 112}}},
			want: []bucketer.Result{bucketer.Applied, bucketer.Unknown},
		},
		{
			name: "write concern not met", n: 3, reply: Reply{N: 2, Errors: []WriteError{{Index: 2, Code: 2}}, Unconfirmed: network},
			want: []bucketer.Result{bucketer.Unknown, bucketer.Unknown, bucketer.Refused},
		},
		{name: "an index out of range", n: 1, reply: Reply{N: 1, Errors: []WriteError{{Index: 5, Code: 2}}}, want: []bucketer.Result{bucketer.Applied}},
		{name: "no answer", n: 2, err: network, want: []bucketer.Result{bucketer.Unknown, bucketer.Unknown}},
		{name: "deadline", n: 1, err: context.DeadlineExceeded, want: []bucketer.Result{bucketer.Unknown}},
		{name: "not sent", n: 2, err: &NotSentError{network}, want: []bucketer.Result{bucketer.NotExecuted, bucketer.NotExecuted}},
		{name: "no primary", n: 1, err: &CommandError{Code: 10107}, want: []bucketer.Result{bucketer.NotExecuted}},
		{name: "stepped down meanwhile", n: 1, err: &CommandError{Code: 11602}, want: []bucketer.Result{bucketer.Unknown}},
		{name: "out of time on the server", n: 1, err: &CommandError{Code: 50}, want: []bucketer.Result{bucketer.Unknown}},
		{name: "refused whole", n: 1, err: &CommandError{Code: 10334}, want: []bucketer.Result{bucketer.Refused}},
		{name: "no privilege", n: 1, err: &CommandError{Code: 13}, want: []bucketer.Result{bucketer.Unknown}},
	} {
		var got []bucketer.Result
		for _, s := range classify(c.n, c.reply, c.err) {
			got = append(got, s.Result)
			if (s.Result == bucketer.Unknown || s.Result == bucketer.NotExecuted) && s.Err == nil {
				t.Errorf("%s: no reason is given", c.name)
			}
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s:\n%s", c.name, diff)
		}
	}
}

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
	if err := portError(driver.ErrDocumentTooLarge); !errors.As(err, &command) || command.Code != codeObjectTooLarge {
		t.Errorf("too large a document: %v", err)
	}
}

func TestFailureTellsOutageFromRefusal(t *testing.T) {
	var (
		refused *RefusedError
		outage  *OutageError
	)
	if err := failure("x", &CommandError{Code: 13}); !errors.As(err, &refused) {
		t.Errorf("unauthorized: %v", err)
	}
	if err := failure("x", &CommandError{Code: 189}); !errors.As(err, &outage) {
		t.Errorf("primary stepped down: %v", err)
	}
	if err := failure("x", &NotSentError{claim.ErrLapsed}); !errors.Is(err, claim.ErrLapsed) || errors.As(err, &outage) {
		t.Errorf("lapsed: %v", err)
	}
	if err := failure("x", net.ErrClosed); !errors.As(err, &outage) || !errors.Is(err, net.ErrClosed) {
		t.Errorf("network: %v", err)
	}
}
