// Command chaos disturbs the consumer in all ways that occur in operation, and judges the stored data.
//
//	E2E_KAFKA_LIBS=/opt/kafka/libs E2E_MONGODB_URI=mongodb://127.0.0.1:27017 go run ./cmd/chaos -duration 10m
//
// E2E_KAFKA_LIBS is the folder of Kafka's jars. The command starts a cluster of three brokers from them, which needs java.
// Without E2E_MONGODB_URI, or with -own-database, the command starts FerretDB as a process of its own.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"waterwheel/e2e/naive"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) > 0 {
		switch args[0] {
		case "naive":
			return naive.Run()
		case "ferretdb":
			return ferretDB(args[1:])
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	p, err := newPlan(args)
	if err != nil {
		return err
	}
	err = p.run(ctx)
	return errors.Join(err, p.close(err != nil))
}
