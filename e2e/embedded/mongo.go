package embedded

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"slices"
	"sync"

	"github.com/FerretDB/FerretDB/ferretdb"

	"waterwheel/e2e/harness/proxy"
)

// Mongo is a server of the MongoDB protocol in this process. It is a FerretDB on SQLite files in a temporary folder.
type Mongo struct {
	turns *turns
	dir   string
	stop  context.CancelFunc
	done  chan error
}

// StartMongo starts a server on a free port of the loopback interface. The caller closes it.
func StartMongo() (*Mongo, error) {
	dir, err := os.MkdirTemp("", "waterwheel-mongo-")
	if err != nil {
		return nil, fmt.Errorf("making a folder for the embedded MongoDB: %w", err)
	}
	m := &Mongo{dir: dir, done: make(chan error, 1)}
	if err := m.start(); err != nil {
		os.RemoveAll(dir)
		return nil, fmt.Errorf("starting the embedded MongoDB: %w", err)
	}
	return m, nil
}

func (m *Mongo) start() error {
	server, err := ferretdb.New(&ferretdb.Config{
		Listener:  ferretdb.ListenerConfig{TCP: "127.0.0.1:0"},
		Logger:    slog.New(slog.DiscardHandler),
		Handler:   "sqlite",
		SQLiteURL: "file:" + m.dir + "/?_pragma=synchronous(off)", // the data need not outlive the process
	})
	if err != nil {
		return err
	}
	address, err := url.Parse(server.MongoDBURI())
	if err != nil {
		return err
	}
	if m.turns, err = takeTurns(address.Host); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	m.stop = stop
	go func() { m.done <- server.Run(ctx) }()
	return nil
}

// String returns the URI.
func (m *Mongo) String() string { return m.URI() }

// URI returns the connection string.
func (m *Mongo) URI() string { return "mongodb://" + m.turns.Address() + "/" }

// Close stops the server and deletes its files.
func (m *Mongo) Close() error {
	m.turns.Close()
	m.stop()
	if err := <-m.done; err != nil {
		return fmt.Errorf("stopping the embedded MongoDB: %w", err)
	}
	if err := os.RemoveAll(m.dir); err != nil {
		return fmt.Errorf("deleting the embedded MongoDB's files: %w", err)
	}
	return nil
}

// changing lists the commands that read a document and write it.
var changing = []string{"insert", "update", "delete", "findAndModify", "findandmodify"}

// turns is a proxy in front of a FerretDB that lets only one client change documents at a time. FerretDB reads a document,
// changes it and writes it whole, without excluding concurrent updates. It acknowledges two concurrent updates of a document, and
// keeps only one. Besides, its SQLite makes writers wait for each other in steps of 100 ms.
type turns struct {
	*proxy.Proxy
	turn sync.Mutex
}

// takeTurns starts the proxy in front of the FerretDB at address. The caller closes it.
func takeTurns(address string) (_ *turns, err error) {
	t := &turns{}
	t.Proxy, err = proxy.New(address, t.serve)
	return t, err
}

// serve forwards requests and their answers, until either side ends the connection.
func (t *turns) serve(client, server net.Conn) {
	for {
		request, err := proxy.Read(client)
		if err != nil {
			return
		}
		answer, err := t.ask(server, request)
		if err != nil {
			return
		}
		if _, err := client.Write(answer); err != nil {
			return
		}
	}
}

// ask returns the server's answer, or nil if the client expects none. FerretDB answers in either case.
func (t *turns) ask(server net.Conn, request proxy.Message) (proxy.Message, error) {
	command, _ := proxy.Parse(request) // a message that Parse does not support is a handshake
	if slices.Contains(changing, command.Name()) {
		t.turn.Lock()
		defer t.turn.Unlock()
	}
	if _, err := server.Write(request); err != nil {
		return nil, err
	}
	answer, err := proxy.Read(server)
	if command.Unanswered {
		answer = nil
	}
	return answer, err
}
