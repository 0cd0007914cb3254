package embedded

import (
	"context"
	"fmt"
	"log/slog"
	"os"

	"github.com/FerretDB/FerretDB/ferretdb"
)

// Mongo is a MongoDB-protocol server in this process: FerretDB on SQLite files in a temporary folder.
type Mongo struct {
	uri  string
	dir  string
	stop context.CancelFunc
	done chan error
}

// StartMongo starts a server on a free port of the loopback interface. The caller closes it.
func StartMongo() (*Mongo, error) {
	dir, err := os.MkdirTemp("", "waterwheel-mongo-")
	if err != nil {
		return nil, fmt.Errorf("making a folder for the embedded MongoDB: %w", err)
	}
	server, err := ferretdb.New(&ferretdb.Config{
		Listener:  ferretdb.ListenerConfig{TCP: "127.0.0.1:0"},
		Logger:    slog.New(slog.DiscardHandler),
		Handler:   "sqlite",
		SQLiteURL: "file:" + dir + "/?_pragma=synchronous(off)", // nothing here outlives the process anyway
	})
	if err != nil {
		os.RemoveAll(dir)
		return nil, fmt.Errorf("starting the embedded MongoDB: %w", err)
	}
	ctx, stop := context.WithCancel(context.Background())
	m := &Mongo{dir: dir, stop: stop, done: make(chan error, 1)}
	go func() { m.done <- server.Run(ctx) }()
	m.uri = server.MongoDBURI()
	return m, nil
}

// String names the server for people.
func (m *Mongo) String() string { return m.uri }

// URI is the connection string. It asks for one connection at a time: SQLite lets several writers wait for each other in
// steps of 100 ms, a dozen updates side by side take seconds where they take a tenth one after the other.
func (m *Mongo) URI() string { return m.uri + "?maxPoolSize=1" }

// Close stops the server and deletes its files.
func (m *Mongo) Close() error {
	m.stop()
	if err := <-m.done; err != nil {
		return fmt.Errorf("stopping the embedded MongoDB: %w", err)
	}
	if err := os.RemoveAll(m.dir); err != nil {
		return fmt.Errorf("deleting the embedded MongoDB's files: %w", err)
	}
	return nil
}
