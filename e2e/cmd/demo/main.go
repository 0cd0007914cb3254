// Command demo shows waterwheel at work on one machine, with nothing installed. It uses an embedded Kafka, an embedded MongoDB
// and the real consumer, with measurements of this machine and of some simulated sensors. It kills the consumer, and later resets
// its group to the earliest offset. At the end it compares all stored documents with all produced records. The command launch
// compiles it.
//
// It exits with 0 only if every valid measurement is stored exactly once and every bad record is a dead letter.
//
//	play.go     the servers, the settings, and the scenes
//	sensors.go  measurements of this machine, of simulated sensors and of a tank
//	show.go     the result: a table, and commands that query the stored measurements; screen.go: lines and colours
//	keep.go     looking around afterwards
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"waterwheel/e2e/check"
	"waterwheel/e2e/events"
	"waterwheel/e2e/harness"
)

// limit bounds the duration of the demo, without the time of -keep.
const limit = 5 * time.Minute

func main() {
	keep := flag.Bool("keep", false, "leave everything running at the end")
	consumer := flag.String("consumer", "", "the path of a built consumer; empty: build it")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, newScreen(os.Stdout), *consumer, *keep)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// run plays the demo from the start of the servers to the last line, and lets it go on if the user wants to look around.
func run(ctx context.Context, out *screen, consumer string, keep bool) error {
	out.title("waterwheel: measurements from Kafka to MongoDB, each stored exactly once")
	for _, name := range []string{"E2E_KAFKA_BROKERS", "E2E_KAFKA_LIBS", "E2E_MONGODB_URI", "E2E_SEGMENTS"} {
		os.Unsetenv(name) // the demo leaves the servers of the tests alone
	}
	return harness.Share("demo", func(shared *harness.Shared) error {
		if consumer == "" {
			var err error
			if consumer, err = harness.Build(ctx, shared.Dir, false); err != nil {
				return err
			}
		}
		servers, err := shared.Servers(ctx, false)
		if err != nil {
			return err
		}
		out.step(green, "✓", "embedded Kafka at %s and %s", servers.Brokers, servers.MongoURI)
		s := &stage{out: out, servers: servers, binary: consumer, settings: settings(servers), book: events.NewBook()}
		if s.reader, err = check.DialKafka(servers.Brokers); err != nil {
			return err
		}
		defer s.close()
		limited, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		if err := s.play(limited); err != nil {
			return err
		}
		if err := s.show(limited, keep); err != nil || !keep {
			return err
		}
		return s.keep(ctx)
	})
}
