package mongodb

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"regexp"
	"strconv"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver/description"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver/topology"
)

// unreachedError is the driver's error about a command that found no server, or no connection to it. Its text names the address
// and the cause.
type unreachedError struct {
	text string
	err  error
}

// Error returns the text.
func (e *unreachedError) Error() string { return e.text }

// Unwrap returns the driver's error, which shows that nothing was sent.
func (e *unreachedError) Unwrap() error { return e.err }

// silentError is the driver's error about an answer that did not come in time, or could not come in the remaining time.
type silentError struct {
	within time.Duration // the time limit. Zero means that it is not known here.
	err    error
}

// Error says how long the limit was.
func (e *silentError) Error() string {
	switch {
	case e.within == 0:
		return "MongoDB did not answer in time"
	case e.within%time.Second == 0:
		return fmt.Sprintf("MongoDB did not answer within %d s", e.within/time.Second)
	}
	return fmt.Sprintf("MongoDB did not answer within %v", e.within)
}

// Unwrap returns the driver's error.
func (e *silentError) Unwrap() error { return e.err }

// Within adds the time limit to an error about an answer that did not come in time. It returns other errors unchanged.
func Within(limit time.Duration, err error) error {
	if _, ok := errors.AsType[*silentError](err); ok {
		return &silentError{limit, err}
	}
	return err
}

// timedOut reports whether the driver gave up a command because its time was over.
func timedOut(err error) bool {
	timeout := net.Error(nil)
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, driver.ErrDeadlineWouldBeExceeded) ||
		errors.As(err, &timeout) && timeout.Timeout()
}

// Translate turns an error of the driver into one of a Collection. If no server could be reached, it names the address and the
// cause.
func (d *Database) Translate(err error) error { return portError(d.reached(err)) }

// reached rewrites errors from before there was a connection, and errors about an answer that did not come. It returns others
// unchanged.
func (d *Database) reached(err error) error {
	var (
		selection topology.ServerSelectionError
		queue     topology.WaitQueueTimeoutError
		dialing   *dialError
		answered  mongo.CommandError
	)
	switch {
	case errors.As(err, &dialing):
		return &unreachedError{"no connection to MongoDB at " + dialing.Address + ": " + cause(dialing.Err), err}
	case errors.As(err, &selection):
		return &unreachedError{"no server available: " + serverStates(selection.Desc), err}
	case errors.As(err, &queue):
		return &unreachedError{d.noConnection(queue), err}
	case timedOut(err) && (!errors.As(err, &answered) || answered.Code == 0):
		return &silentError{err: err}
	}
	return err
}

// poolUse finds the number and the limit of connections in the driver's text.
var poolUse = regexp.MustCompile(`total connections: (\d+), maxPoolSize: (\d+)`)

// noConnection says why a command got no connection in time.
func (d *Database) noConnection(err topology.WaitQueueTimeoutError) string {
	if errors.Is(err, context.Canceled) {
		return "there was no connection to MongoDB at " + d.hosts + " yet"
	}
	if use := poolUse.FindStringSubmatch(err.Error()); use != nil {
		total, _ := strconv.Atoi(use[1])
		if most, _ := strconv.Atoi(use[2]); most > 0 && total >= most {
			return fmt.Sprintf("all %d connections to MongoDB at %s are in use, and none became free in time: MongoDB is slow, or "+
				"maxPoolSize in MONGODB_URI is too small", total, d.hosts)
		}
	}
	if failures, _ := d.dialer.failures(); failures != "" {
		return "no connection to MongoDB: " + failures
	}
	return "MongoDB at " + d.hosts + " does not answer: a connection opens, but nothing comes back in time"
}

// serverStates says why each server was not chosen.
func serverStates(t description.Topology) string {
	if len(t.Servers) == 0 {
		return "no server is known"
	}
	states := make([]string, len(t.Servers))
	for i, s := range t.Servers {
		switch {
		case s.LastError != nil:
			states[i] = string(s.Addr) + ": " + cause(s.LastError)
		case s.Kind == description.Unknown:
			states[i] = string(s.Addr) + ": nothing comes back"
		default:
			states[i] = fmt.Sprintf("%s is %s", s.Addr, s.Kind)
		}
	}
	return strings.Join(states, "; ")
}

// cause returns what went wrong with a connection, without its address and purpose.
func cause(err error) string {
	var (
		operation *net.OpError
		dialing   *dialError
	)
	switch {
	case errors.Is(err, context.Canceled):
		return "the connection attempt was canceled"
	case errors.As(err, &operation) && operation.Timeout():
		return "nothing comes back: " + operation.Err.Error()
	case errors.As(err, &operation):
		return operation.Err.Error()
	case errors.As(err, &dialing):
		return dialing.Err.Error()
	}
	return err.Error()
}

// hearing is the kind of answer from a server that accepts connections.
type hearing string

const (
	heardAnswer  hearing = "an answer"
	heardNothing hearing = "nothing"
	heardEnd     hearing = "the end of the connection"
	// heardEither means nothing or the end of the connection. The driver gives up the check of a server when another connection
	// to the server breaks, by its end or without an answer (topology.Server.ProcessHandshakeError). It does not keep which of
	// the two it was.
	heardEither hearing = "nothing, or the end of the connection"
)

// heardFrom combines the answers of servers of which none could be chosen.
func heardFrom(t description.Topology) hearing {
	var all hearing
	for _, s := range t.Servers {
		switch h := heardFromOne(s); {
		case h == heardAnswer:
			return heardAnswer
		case all == "":
			all = h
		case h != all:
			all = heardEither
		}
	}
	return cmp.Or(all, heardAnswer)
}

func heardFromOne(s description.Server) hearing {
	timeout := net.Error(nil)
	switch err := s.LastError; {
	case s.Kind != description.Unknown:
		return heardAnswer
	case err == nil || errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout():
		return heardNothing
	case hungUp(err):
		return heardEnd
	case errors.Is(err, context.Canceled):
		return heardEither
	}
	return heardAnswer
}
