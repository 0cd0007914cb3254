package mongodb

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"syscall"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver/auth"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver/description"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver/topology"
)

// connecting is the Doing of Open's errors.
const connecting = "connecting to MongoDB"

// silentTLS is the message about servers that answer nothing to a TLS client.
const silentTLS = "MongoDB does not answer: %s: a connection opens, but nothing comes back: does the server speak TLS (if not, " +
	"remove tls=true from MONGODB_URI), is this MongoDB's port, does the server hang?"

// explain says what to do when the greeting of the server fails. It returns an *OutageError if that may pass by itself.
func (d *Database) explain(err error) error {
	hosts, tlsFailed := d.dialer.failures()
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
		return fmt.Errorf("MongoDB refuses the user name or password of MONGODB_URI (is authSource the database in which the user was created?): %s",
			redact(login.Error(), d.o.URI))
	case login != nil:
		return d.away("MongoDB does not answer the login: %s", redact(login.Error(), d.o.URI))
	case tlsFailed && d.dialer.silent():
		return d.away(silentTLS, hosts)
	case tlsFailed && d.dialer.unanswered():
		return d.away("MongoDB closes the connection in the TLS handshake: %s: is it a proxy in front of a server that is down, does the server speak TLS (if not, "+
			"remove tls=true from MONGODB_URI), is this MongoDB's port?", hosts)
	case tlsFailed:
		return fmt.Errorf("TLS with MongoDB fails: %s: does the server speak TLS (if not, remove tls=true from MONGODB_URI), is its "+
			"certificate issued for this host name, does tlsCAFile name its CA?", hosts)
	case d.dialer.unknown() != "":
		return d.away("MongoDB is not reachable: DNS does not know %s: is the name in MONGODB_URI correct, does its DNS record exist yet? %s",
			d.dialer.unknown(), hosts)
	case hosts != "":
		return d.away("MongoDB is not reachable: %s: is it running, is the address in MONGODB_URI right, does a firewall block it?", hosts)
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
	return &OutageError{Doing: connecting, Err: fmt.Errorf(format, args...)}
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
	network := net.Error(nil)
	return errors.As(err, &network) || hungUp(err) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
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
		return d.away("MongoDB does not answer: %s: a connection opens, but nothing comes back: is this MongoDB's port, does the server "+
			"hang, does a firewall block the connection?", states)
	case heard == heardEnd:
		return d.away("MongoDB closes the connection at once: %s: is it a proxy in front of a server that is down, does the server require TLS (then add tls=true "+
			"to MONGODB_URI), is this MongoDB's port?", states)
	case heard == heardEither:
		return d.away("MongoDB does not answer: %s: a connection opens, but nothing comes back, or the server closes the connection at once: is it "+
			"a proxy in front of a server that is down, does it require TLS (then add tls=true to MONGODB_URI), is this MongoDB's port, does the server hang?", states)
	}
	const noPrimary = "MongoDB answers, but not as a primary: %s: is an election going on, is the replica set initiated, is " +
		"replicaSet in MONGODB_URI its name, does the server require TLS (tls=true)?"
	if len(t.Servers) == 0 { // the driver drops servers of a replica set other than the URI's
		return fmt.Errorf(noPrimary, states)
	}
	return d.away(noPrimary, states)
}

// unreadableURI explains a URI that the driver refuses. It quotes nothing of the URI, because any part may belong to a password.
// It only tells a name that DNS does not know.
func unreadableURI(err error, uri string) error {
	text, _, _ := strings.Cut(redact(err.Error(), uri), `"`) // the driver quotes the URI after this character
	text = strings.TrimRight(text, " :")
	if unknown, ok := errors.AsType[*net.DNSError](err); ok && !strings.Contains(unknown.Name, "@") { // it may be known later
		return &OutageError{Doing: connecting, Err: fmt.Errorf("DNS does not know %s: is the name in MONGODB_URI correct, does its DNS "+
			"record exist yet?", unknown.Name)}
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
