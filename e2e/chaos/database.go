package chaos

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"time"

	"waterwheel/e2e/harness"
)

// database is the run's own database process, if it has one.
type database struct {
	command []string
	host    string
	process *harness.Consumer
}

// startDatabase starts the options' database, if it is the run's own.
func startDatabase(ctx context.Context, o Options) (*database, error) {
	uri, err := url.Parse(o.MongoURI)
	if err != nil {
		return nil, fmt.Errorf("reading the database's URI: %w", err)
	}
	d := &database{command: o.DatabaseCommand, host: uri.Host}
	if len(d.command) == 0 {
		return d, nil
	}
	return d, d.start(ctx)
}

// start starts the process with the data it has, and waits until it accepts connections.
func (d *database) start(ctx context.Context) error {
	process, err := harness.Start(d.command[0], harness.Settings{}, d.command[1:]...)
	if err != nil {
		return err
	}
	d.process = process
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	for {
		connection, err := net.DialTimeout("tcp", d.host, time.Second)
		if err == nil {
			return connection.Close()
		}
		select {
		case <-process.Ended():
			return fmt.Errorf("the database ended by itself:\n%s", process.Log())
		case <-ctx.Done():
			return fmt.Errorf("waiting for the database: %w", ctx.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (d *database) kill() { d.process.Kill() }

func (d *database) close() {
	if d.process != nil {
		d.process.Kill()
	}
}
