package chaos

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"time"

	"waterwheel/e2e/harness"
)

// database holds the processes of a database that the run itself starts. A sharded cluster has several. Without commands the
// database is foreign and has no processes.
type database struct {
	commands  [][]string
	host      string
	processes []*harness.Consumer
}

// startDatabase starts the processes of the database and waits until it accepts connections. It starts nothing if the options
// have no commands.
func startDatabase(ctx context.Context, o Options) (*database, error) {
	uri, err := url.Parse(o.MongoURI)
	if err != nil {
		return nil, fmt.Errorf("reading the database's URI: %w", err)
	}
	d := &database{commands: o.DatabaseCommands, host: uri.Host, processes: make([]*harness.Consumer, len(o.DatabaseCommands))}
	for i := range d.commands {
		if err := d.launch(i); err != nil {
			return d, err
		}
	}
	if len(d.commands) == 0 {
		return d, nil
	}
	return d, d.await(ctx)
}

func (d *database) launch(process int) (err error) {
	command := d.commands[process]
	d.processes[process], err = harness.Start(command[0], harness.Settings{}, command[1:]...)
	return err
}

// start restarts a killed process on the data it had, and waits until the database accepts connections.
func (d *database) start(ctx context.Context, process int) error {
	if err := d.launch(process); err != nil {
		return err
	}
	return d.await(ctx)
}

// restart kills each process, and starts it again. On MongoDB 5.0 a primary that has stepped down during the move of a chunk may
// hang, and only an operator can end that.
func (d *database) restart(ctx context.Context) error {
	for process := range d.processes {
		d.kill(process)
		if err := d.start(ctx, process); err != nil {
			return err
		}
	}
	return nil
}

func (d *database) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		connection, err := net.DialTimeout("tcp", d.host, time.Second)
		if err == nil {
			return connection.Close()
		}
		for i, process := range d.processes {
			select {
			case <-process.Ended():
				return fmt.Errorf("process %d of the database ended by itself:\n%s", i, process.Log())
			default:
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for the database: %w", ctx.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (d *database) kill(process int) { d.processes[process].Kill() }

func (d *database) close() {
	for _, process := range d.processes {
		if process != nil {
			process.Kill()
		}
	}
}
