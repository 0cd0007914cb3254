// Command demo shows waterwheel at work on one machine, with nothing installed. It uses an embedded Kafka, an embedded MongoDB
// and the real consumer, with measurements of this machine and of some simulated sensors. It kills the consumer, and later resets
// its group to the earliest offset. At the end it compares all stored documents with all produced records. The command launch
// compiles it.
//
// It exits with 0 only if every valid measurement is stored exactly once and every bad record is a letter.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"waterwheel/e2e/cmd/demo/choices"
)

// limit bounds the duration of the demo, without the time of -keep.
const limit = 3 * time.Minute

func main() {
	c, err := choices.Parse(os.Args[1:], os.Stdout)
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err == nil {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		err = run(ctx, newScreen(os.Stdout), c)
		stop()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// run plays the demo from the start of the servers to the last line, and keeps it running if the choices say so.
func run(ctx context.Context, out *screen, c choices.Choices) (err error) {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	out.title("waterwheel: measurements from Kafka to MongoDB, each stored exactly once")
	s, err := open(limited, out, c.Consumer)
	if err != nil {
		return err
	}
	defer func() {
		if closing := s.close(); err == nil {
			err = closing
		}
	}()
	if err := s.play(limited); err != nil {
		return err
	}
	if err := s.show(limited, c.Keep); err != nil {
		return err
	}
	if c.Keep {
		return s.keep(ctx)
	}
	return nil
}
