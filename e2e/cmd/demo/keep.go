package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

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
	chart, err := s.serve(ctx)
	if err != nil {
		return err
	}
	settings := filepath.Join(s.dir, "settings")
	if err := os.WriteFile(settings, []byte(s.environment()), 0o600); err != nil {
		return fmt.Errorf("writing the consumer's settings: %w", err)
	}
	s.out.title("Look around: all goes on until Ctrl-C")
	s.out.line("  status page   http://%s/", s.consumer.Address())
	s.out.line("  charts        http://%s/?series=%s&match=sensor=%s&field=%s&last=15m", chart, topicName, plottedSensors, plotted)
	s.out.line("  Kafka         %s", s.kafka.Brokers())
	s.out.line("                topic %s, letters in %s.dlq", topicName, topicName)
	s.out.line("                group %s", groupName)
	s.out.line("  MongoDB       %s", s.mongo)
	s.out.line("                database %s, collection %s.buckets", databaseName, topicName)
	s.out.line("  the program   in another terminal:")
	s.out.line("                set -a; . %s", settings)
	for _, arguments := range lookAround {
		s.out.line("                %s %s", s.binary, arguments)
	}
	s.out.line("                %s status --of %s", s.binary, s.consumer.Address())

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	produced := make(chan error, 1)
	go func() { produced <- s.produce(ctx, time.Now().AddDate(1, 0, 0)) }()
	select {
	case <-s.consumer.Ended():
		if ctx.Err() == nil { // Ctrl-C ends both
			return fmt.Errorf("the consumer ended:\n%s", s.consumer.Log())
		}
	case err := <-produced:
		if !errors.Is(err, context.Canceled) {
			return err
		}
	}
	s.out.line("\ndemo: ended; nothing is left of it")
	return nil
}

// servesAt matches the HTTP address in the program's log.
var servesAt = regexp.MustCompile(`setting=SERVE_ADDR address=(\S+)`)

// serve starts the program's serve command, which answers queries over HTTP, and returns its address.
func (s *stage) serve(ctx context.Context) (string, error) {
	server, err := harness.Start(s.binary, s.settings.With("SERVE_ADDR", "127.0.0.1:0"), "serve")
	if err != nil {
		return "", err
	}
	s.server = server
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	for {
		if at := servesAt.FindStringSubmatch(server.Log()); at != nil {
			return at[1], nil
		}
		select {
		case <-look.C:
		case <-server.Ended():
			return "", fmt.Errorf("serve ended:\n%s", server.Log())
		case <-ctx.Done():
			return "", fmt.Errorf("serve does not listen: %w\n%s", ctx.Err(), server.Log())
		}
	}
}

// environment returns the consumer's settings as shell assignments.
func (s *stage) environment() string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(s.settings)) {
		fmt.Fprintf(&b, "%s='%s'\n", name, s.settings[name])
	}
	return b.String()
}
