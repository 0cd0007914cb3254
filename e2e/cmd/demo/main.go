// Command demo shows waterwheel at work on one machine, with nothing installed: an embedded Kafka and an embedded MongoDB,
// measurements of this machine and of some simulated sensors, and the real consumer, which is killed on the way. At the
// end everything stored is compared with everything produced.
//
// It exits with 0 only if every valid measurement is stored exactly once and every bad record is a letter.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// limit bounds the whole demo.
const limit = 3 * time.Minute

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	ctx, cancel := context.WithTimeout(ctx, limit)
	err := run(ctx, newScreen(os.Stdout))
	cancel()
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// run plays the demo from the start of the servers to the last line.
func run(ctx context.Context, out *screen) (err error) {
	out.title("waterwheel: measurements from Kafka to MongoDB, each stored exactly once")
	s, err := open(ctx, out)
	if err != nil {
		return err
	}
	defer func() {
		if closing := s.close(); err == nil {
			err = closing
		}
	}()
	if err := s.play(ctx); err != nil {
		return err
	}
	return s.show(ctx)
}
