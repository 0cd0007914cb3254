package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"waterwheel/e2e/harness"
)

// plotted and plottedSensors are the field and the sensors that one of the commands draws.
const (
	plotted        = "temperature"
	plottedSensors = "s-00,s-03"
)

// lookAround lists commands that show something of the demo's data.
var lookAround = []string{
	"verify", "collection show", "dlq stats", "check --sample 10",
	"query " + topicName + " sensor=" + plottedSensors + " --last 15m --plot " + plotted,
	"query " + topicName + " kind=cpu --latest",
}

// keep prints the addresses of everything, and lets the demo go on until the context ends.
func (s *stage) keep(ctx context.Context) error {
	// A pass each second over hours that fill up would soon be too much for the embedded database.
	s.settings = s.settings.With("ROLLUP_INTERVAL", "30s", "ROLLUP_SHARE", "0.1")
	if err := s.startConsumer(ctx); err != nil {
		return err
	}
	chart, err := harness.NewLinkAddress()
	if err != nil {
		return err
	}
	server, err := harness.Start(s.binary, s.settings.With("SERVE_ADDR", chart), "serve")
	if err != nil {
		return err
	}
	defer server.Kill()
	file, err := s.writeSettings()
	if err != nil {
		return err
	}
	defer os.Remove(file)
	s.out.title("Look around: all goes on until Ctrl-C")
	s.out.line("  status page   http://%s/", s.consumer.Address())
	s.out.line("  charts        http://%s/?series=%s&match=sensor=%s&field=%s&last=15m", chart, topicName, plottedSensors, plotted)
	s.out.line("  Kafka         %s", s.servers.Brokers)
	s.out.line("                topic %s, dead letters in %s.dlq", topicName, topicName)
	s.out.line("                group %s", groupName)
	s.out.line("  MongoDB       %s", s.servers.MongoURI)
	s.out.line("                database %s, collection %s.buckets", databaseName, topicName)
	s.out.line("  the program   in another terminal:")
	s.out.line("                set -a; . %s", file)
	for _, arguments := range append(lookAround, "status --of "+s.consumer.Address()) {
		s.out.line("                %s %s", s.binary, arguments)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.produce(ctx, time.Now().AddDate(1, 0, 0)) })
	for _, process := range []*harness.Consumer{s.consumer, server} {
		group.Go(func() error {
			select {
			case <-process.Ended():
				if ctx.Err() == nil { // Ctrl-C ends the processes, too
					return fmt.Errorf("a process ended:\n%s", process.Log())
				}
			case <-ctx.Done():
			}
			return nil
		})
	}
	if err := group.Wait(); !errors.Is(err, context.Canceled) {
		return err
	}
	s.out.line("\ndemo: ended; nothing is left of it")
	return nil
}

// writeSettings writes the consumer's settings to a file that a shell can read, and returns its path.
func (s *stage) writeSettings() (string, error) {
	file, err := os.CreateTemp("", "waterwheel-demo-settings-")
	if err != nil {
		return "", fmt.Errorf("making a file for the consumer's settings: %w", err)
	}
	_, err = file.WriteString(s.environment())
	if err = errors.Join(err, file.Close()); err != nil {
		return "", fmt.Errorf("writing the consumer's settings: %w", err)
	}
	return file.Name(), nil
}

// environment returns the consumer's settings as shell assignments.
func (s *stage) environment() string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(s.settings)) {
		fmt.Fprintf(&b, "%s='%s'\n", name, s.settings[name])
	}
	return b.String()
}
