package harness

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"testing"

	"waterwheel/e2e/embedded"
)

// Shared is what the tests of a package share while they run.
type Shared struct {
	// Dir is a folder that is deleted afterwards.
	Dir  string
	ends []func() error
}

// AtEnd registers a function to call after the tests. The last one is called first.
func (s *Shared) AtEnd(end func() error) { s.ends = append(s.ends, end) }

// Mongo starts an embedded MongoDB for the tests and returns its URI.
func (s *Shared) Mongo() (string, error) {
	database, err := embedded.StartMongo()
	if err != nil {
		return "", err
	}
	s.AtEnd(database.Close)
	return database.URI(), nil
}

// Servers returns the servers of StartServers, which run until the tests end. If cluster is true and Kafka's jars are given instead
// of a Kafka, by E2E_KAFKA_LIBS, Kafka is a cluster of three brokers.
func (s *Shared) Servers(ctx context.Context, cluster bool) (*Servers, error) {
	if jars := os.Getenv("E2E_KAFKA_LIBS"); cluster && jars != "" && os.Getenv("E2E_KAFKA_BROKERS") == "" {
		kafka, err := StartCluster(ctx, ClusterOptions{Jars: jars, Dir: filepath.Join(s.Dir, "kafka"), Brokers: 3})
		if err != nil {
			return nil, err
		}
		s.AtEnd(kafka.Close)
		os.Setenv("E2E_KAFKA_BROKERS", kafka.Address()) // StartServers reads this variable
	}
	servers, err := StartServers(ctx)
	if err != nil {
		return nil, err
	}
	s.AtEnd(servers.Close)
	return servers, nil
}

func (s *Shared) end() error {
	var errs []error
	for _, end := range slices.Backward(s.ends) {
		errs = append(errs, end())
	}
	return errors.Join(append(errs, os.RemoveAll(s.Dir))...)
}

// Main prepares the state that the tests of a package share, runs the tests, and exits. TestMain only calls Main. name is the
// name of the package in messages.
func Main(m *testing.M, name string, prepare func(context.Context, *Shared) error) {
	flag.Parse()
	code, err := runTests(m, name, prepare)
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		code = 1
	}
	os.Exit(code)
}

func runTests(m *testing.M, name string, prepare func(context.Context, *Shared) error) (code int, err error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	err = Share(name, func(s *Shared) error {
		if err := prepare(ctx, s); err != nil {
			return err
		}
		code = m.Run()
		return nil
	})
	return code, err
}

// Share makes a folder and calls do with it. Then it ends whatever AtEnd was called for, and deletes the folder.
func Share(name string, do func(*Shared) error) (err error) {
	dir, err := os.MkdirTemp("", "waterwheel-"+name+"-")
	if err != nil {
		return fmt.Errorf("making a folder: %w", err)
	}
	s := &Shared{Dir: dir}
	defer func() { err = errors.Join(err, s.end()) }()
	return do(s)
}
