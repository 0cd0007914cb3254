package mongodb

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver/auth"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver/description"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver/topology"
)

// connecting is the Doing of Open's errors.
const connecting = "connecting to MongoDB"

// silentTLS is the message about servers that answer nothing to a TLS client.
const silentTLS = "MongoDB does not answer: %s: a connection opens, but nothing comes back. Possible causes: a server without TLS (then " +
	"remove tls=true from MONGODB_URI), a port that is not MongoDB's, a server that hangs"

// explain says what to do when the greeting of the server fails. It returns an *OutageError if that may pass by itself.
func (d *Database) explain(err error) error {
	failed := d.dialer.failures()
	inTLS := failed.inTLS()
	unanswered := func(err error) bool { return timedOut(err) || hungUp(err) }
	var (
		login     *auth.Error
		selection topology.ServerSelectionError
		command   mongo.CommandError
	)
	all := err
	if errors.As(err, &selection) { // why each server could not be chosen
		for _, server := range selection.Desc.Servers {
			all = errors.Join(all, server.LastError)
		}
	}
	switch {
	case errors.As(all, &login) && !loginCut(login):
		return fmt.Errorf("MongoDB refuses the user name or password of MONGODB_URI (authSource must be the database in which the user was created): %s",
			redact(login.Error(), d.o.URI))
	case login != nil:
		return d.away("MongoDB does not answer the login: %s", redact(login.Error(), d.o.URI))
	case len(inTLS) > 0 && inTLS.all(timedOut):
		return d.away(silentTLS, failed)
	case len(inTLS) > 0 && inTLS.all(unanswered):
		return d.away("MongoDB closes the connection in the TLS handshake: %s. Possible causes: a proxy in front of a server that is down, a server without TLS (then "+
			"remove tls=true from MONGODB_URI), a port that is not MongoDB's", failed)
	case len(inTLS) > 0:
		return fmt.Errorf("TLS with MongoDB fails: %s. Possible causes: a server without TLS (then remove tls=true from MONGODB_URI), a "+
			"certificate for another host name, a tlsCAFile with another CA", failed)
	case failed.unknownHost() != "":
		return d.away("MongoDB is not reachable: DNS does not know %s: correct the name in MONGODB_URI, or create its DNS record: %s",
			failed.unknownHost(), failed)
	case len(failed) > 0:
		return d.away("MongoDB is not reachable: %s. Possible causes: a server that does not run, a wrong address in MONGODB_URI, a firewall", failed)
	case errors.As(err, &selection):
		return d.unchosen(selection.Desc)
	case errors.As(err, &command) && command.Code == codeUnauthorized:
		return fmt.Errorf("MongoDB requires a login: add user:password@ to MONGODB_URI: %s", command.Message)
	}
	text := redact(d.reached(err).Error(), d.o.URI)
	if brokenOff(err) || neverSent(err) || errors.As(err, &command) && ClassOf(command.Code) != refused {
		return d.away("sending hello to MongoDB: %s", text)
	}
	return fmt.Errorf("sending hello to MongoDB: %s", text)
}

// away makes an OutageError of connecting.
func (d *Database) away(format string, args ...any) error {
	return &OutageError{Operation: connecting, Err: fmt.Errorf(format, args...)}
}

// loginCut reports whether a login got no answer, or met a server without time for it. False means that the server refused the
// login.
func loginCut(err *auth.Error) bool {
	if answer, ok := errors.AsType[driver.Error](err); ok && answer.Code != 0 {
		return ClassOf(answer.Code) != refused
	}
	return brokenOff(err)
}

// brokenOff reports whether a connection ended or was silent for too long.
func brokenOff(err error) bool {
	return errors.As(err, new(net.Error)) || hungUp(err) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}

// hungUp reports whether the other side ended a connection.
func hungUp(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// unchosen says what to do when connections to servers open but no server was chosen.
func (d *Database) unchosen(t description.Topology) error {
	states := serverStates(t)
	switch heard := heardFrom(t); {
	case heard == heardNothing && d.dialer.tls != nil:
		return d.away(silentTLS, states)
	case heard == heardNothing:
		return d.away("MongoDB does not answer: %s: a connection opens, but nothing comes back. Possible causes: a port that is not MongoDB's, "+
			"a server that hangs, a firewall", states)
	case heard == heardEnd:
		return d.away("MongoDB closes the connection immediately: %s. Possible causes: a proxy in front of a server that is down, a server that requires TLS (then "+
			"add tls=true to MONGODB_URI), a port that is not MongoDB's", states)
	case heard == heardEither:
		return d.away("MongoDB does not answer: %s: a connection opens, but nothing comes back, or the server closes the connection immediately. "+
			"Possible causes: a proxy in front of a server that is down, a server that requires TLS (then add tls=true to MONGODB_URI), a port that is not MongoDB's, a server that hangs", states)
	}
	const noPrimary = "MongoDB answers, but not as a primary: %s. Possible causes: an election, a replica set that is not initiated, " +
		"another name of the replica set than replicaSet in MONGODB_URI, a server that requires TLS (then add tls=true)"
	if len(t.Servers) == 0 { // the driver drops servers of a replica set other than the URI's
		return fmt.Errorf(noPrimary, states)
	}
	return d.away(noPrimary, states)
}

// unreadableURI explains a URI that the driver refuses. It quotes nothing of the URI, because any part may belong to a password.
// It names only a host that DNS does not know.
func unreadableURI(err error, uri string) error {
	text, _, _ := strings.Cut(redact(err.Error(), uri), `"`) // the driver quotes the URI after this character
	text = strings.TrimRight(text, " :")
	if unknown, ok := errors.AsType[*net.DNSError](err); ok && !strings.Contains(unknown.Name, "@") { // it may be known later
		return &OutageError{Operation: connecting, Err: fmt.Errorf("DNS does not know %s: correct the name in MONGODB_URI, or create its "+
			"DNS record", unknown.Name)}
	}
	return fmt.Errorf("MONGODB_URI: %s; write mongodb://user:password@host:27017/database or mongodb+srv://…, and in user and password "+
		"write @ : / ? # %% as %%40 %%3A %%2F %%3F %%23 %%25", text)
}

// redact removes the user and the password of a URI from a text.
func redact(text, uri string) string {
	_, rest, _ := strings.Cut(uri, "://")
	end := strings.LastIndexByte(rest, '@')
	if end < 0 {
		return text
	}
	credentials := rest[:end]
	text = strings.ReplaceAll(text, credentials, "***")
	_, password, _ := strings.Cut(credentials, ":")
	plain, _ := url.QueryUnescape(password) // empty if the password is not escaped correctly
	for _, secret := range []string{password, plain} {
		if secret != "" {
			text = strings.ReplaceAll(text, secret, "***")
		}
	}
	return text
}

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
	if failed := d.dialer.failures(); len(failed) > 0 {
		return "no connection to MongoDB: " + failed.String()
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
	switch err := s.LastError; {
	case s.Kind != description.Unknown:
		return heardAnswer
	case err == nil || timedOut(err):
		return heardNothing
	case hungUp(err):
		return heardEnd
	case errors.Is(err, context.Canceled):
		return heardEither
	}
	return heardAnswer
}

const (
	// longestSilence is the longest time to wait for an answer to a read.
	longestSilence = time.Hour
	// forgetSilence is how long after the last lost answer the first time limit applies again. It is longer than any wait for an
	// answer.
	forgetSilence = 3 * time.Hour
)

// silence is how long a read waits for one answer of a server. A read may take long, but its answer may also be lost while the
// connection lives on, in a proxy or in a server that forgets it. Nothing else would end such a read. So the read is given up
// after a while. Each such read doubles the time of later reads, so a long read succeeds at last. It is safe for concurrent use.
type silence struct {
	first time.Duration // Zero means that no read is given up.

	mu   sync.Mutex
	wait time.Duration
	last time.Time // when a read was given up
}

// most is how long a read that begins now waits for an answer. Zero means no limit.
func (s *silence) most() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wait == 0 || time.Since(s.last) > forgetSilence {
		s.wait = s.first
	}
	return s.wait
}

// gaveUp notes that an answer did not come within after. Reads that wait at the same time count once.
func (s *silence) gaveUp(after time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last = time.Now(); s.wait == after {
		s.wait = min(2*after, max(longestSilence, s.first))
	}
}

// answered runs a read that waits for one answer, with the time limit. It translates the read's error.
func (d *Database) answered(ctx context.Context, read func(context.Context) error) error {
	most := d.silence.most()
	if until, bounded := ctx.Deadline(); most == 0 || bounded && time.Until(until) < most {
		return d.Translate(read(ctx))
	}
	limited, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	err := d.Translate(read(limited))
	if _, ok := errors.AsType[*silentError](err); ok && ctx.Err() == nil {
		d.silence.gaveUp(most)
	}
	return Within(most, err)
}
