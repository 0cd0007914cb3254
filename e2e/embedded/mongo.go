package embedded

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"os"

	"github.com/FerretDB/FerretDB/ferretdb"
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
