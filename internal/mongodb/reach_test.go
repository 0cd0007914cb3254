package mongodb

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"go.mongodb.org/mongo-driver/v2/x/mongo/driver/description"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver/topology"
)

// TestUnreachedNamesAddressAndCause checks that the error uses an operator's words. It must still be a NotSentError.
func TestUnreachedNamesAddressAndCause(t *testing.T) {
	refused := &dialError{Address: "b:2", Err: &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", errors.New("connection refused"))}}
	queue := topology.WaitQueueTimeoutError{Wrapped: context.DeadlineExceeded}
	for name, c := range map[string]struct {
		failed map[string]*dialError
		err    error
		want   string
	}{
		"silence":      {nil, queue, "MongoDB at a:1,b:2 does not answer: a connection opens, but nothing comes back in time"},
		"a failure":    {map[string]*dialError{"b:2": refused}, queue, "no connection to MongoDB: b:2: "},
		"a connection": {nil, refused, "no connection to MongoDB at b:2: connect: connection refused"},
		"no primary": {nil, topology.ServerSelectionError{
			Wrapped: context.DeadlineExceeded, Desc: description.Topology{Servers: []description.Server{
				{Addr: "a:1", Kind: description.ServerKindRSSecondary}, {Addr: "b:2", LastError: refused}, {Addr: "c:3"},
			}},
		}, "no server available: a:1 is RSSecondary; b:2: connect: connection refused; c:3: nothing comes back"},
	} {
		d := &Database{hosts: "a:1,b:2", dialer: &dialer{failed: c.failed}}
		err := d.Translate(c.err)
		if !strings.HasPrefix(err.Error(), c.want) || strings.Contains(err.Error(), "wait duration") {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		if _, ok := errors.AsType[*NotSentError](err); !ok {
			t.Errorf("%s: it is not known any more that nothing was sent", name)
		}
	}
}

// TestHeardFrom checks that a server without an answer is never reported as answering, whatever errors the driver kept.
func TestHeardFrom(t *testing.T) {
	failed := func(err error) description.Server { return description.Server{LastError: err} }
	late := &net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}
	for name, c := range map[string]struct {
		servers []description.Server
		want    hearing
	}{
		"no server":           {nil, heardAnswer},
		"a secondary":         {[]description.Server{failed(io.EOF), {Kind: description.ServerKindRSSecondary}}, heardAnswer},
		"another error":       {[]description.Server{failed(io.EOF), failed(errors.New("wrong version"))}, heardAnswer},
		"not yet":             {[]description.Server{{}, failed(late), failed(context.DeadlineExceeded)}, heardNothing},
		"hanging up":          {[]description.Server{failed(io.EOF), failed(syscall.ECONNRESET)}, heardEnd},
		"one way and another": {[]description.Server{failed(io.EOF), {}}, heardEither},
		"a check given up":    {[]description.Server{failed(context.Canceled)}, heardEither},
		"one of two given up": {[]description.Server{failed(io.EOF), failed(topology.ConnectionError{Wrapped: context.Canceled})}, heardEither},
		"given up, an answer": {[]description.Server{failed(context.Canceled), {Kind: description.ServerKindRSGhost}}, heardAnswer},
	} {
		if heard := heardFrom(description.Topology{Servers: c.servers}); heard != c.want {
			t.Errorf("%s: %s was heard, want %s", name, heard, c.want)
		}
	}
}
