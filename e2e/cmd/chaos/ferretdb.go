package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/FerretDB/FerretDB/ferretdb"
)

// ferretDB serves MongoDB's protocol at an address until the process is killed. Its data are SQLite files in a folder.
func ferretDB(args []string) error {
	if len(args) != 2 {
		return errors.New("ferretdb takes an address and a folder")
	}
	server, err := ferretdb.New(&ferretdb.Config{
		Listener:  ferretdb.ListenerConfig{TCP: args[0]},
		Logger:    slog.New(slog.DiscardHandler),
		Handler:   "sqlite",
		SQLiteURL: "file:" + args[1] + "/",
	})
	if err != nil {
		return fmt.Errorf("starting FerretDB: %w", err)
	}
	return server.Run(context.Background())
}
