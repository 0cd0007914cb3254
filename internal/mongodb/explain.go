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
const silentTLS = "MongoDB does not answer: %s: a connection opens, but nothing comes back. Possible causes: a server without TLS (then " +
	"remove tls=true from MONGODB_URI), a port that is not MongoDB's, a server that hangs"

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
		return fmt.Errorf("MongoDB refuses the user name or password of MONGODB_URI (authSource must be the database in which the user was created): %s",
			redact(login.Error(), d.o.URI))
	case login != nil:
		return d.away("MongoDB does not answer the login: %s", redact(login.Error(), d.o.URI))
	case tlsFailed && d.dialer.silent():
		return d.away(silentTLS, hosts)
	case tlsFailed && d.dialer.unanswered():
		return d.away("MongoDB closes the connection in the TLS handshake: %s. Possible causes: a proxy in front of a server that is down, a server without TLS (then "+
			"remove tls=true from MONGODB_URI), a port that is not MongoDB's", hosts)
	case tlsFailed:
		return fmt.Errorf("TLS with MongoDB fails: %s. Possible causes: a server without TLS (then remove tls=true from MONGODB_URI), a "+
			"certificate for another host name, a tlsCAFile with another CA", hosts)
	case d.dialer.unknown() != "":
		return d.away("MongoDB is not reachable: DNS does not know %s: correct the name in MONGODB_URI, or create its DNS record: %s",
			d.dialer.unknown(), hosts)
	case hosts != "":
		return d.away("MongoDB is not reachable: %s. Possible causes: a server that does not run, a wrong address in MONGODB_URI, a firewall", hosts)
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
// It only tells a name that DNS does not know.
func unreadableURI(err error, uri string) error {
	text, _, _ := strings.Cut(redact(err.Error(), uri), `"`) // the driver quotes the URI after this character
	text = strings.TrimRight(text, " :")
	if unknown, ok := errors.AsType[*net.DNSError](err); ok && !strings.Contains(unknown.Name, "@") { // it may be known later
		return &OutageError{Doing: connecting, Err: fmt.Errorf("DNS does not know %s: correct the name in MONGODB_URI, or create its "+
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
