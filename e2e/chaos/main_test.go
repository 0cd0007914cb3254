package chaos

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"testing"

	"waterwheel/e2e/embedded"
	"waterwheel/e2e/harness"
)

var outageTime = flag.Duration("outage", 0, "how long an outage lasts; 0: none is tried")

// world is what the tests share; it does not change once they run.
var world struct {
	cluster  *harness.Cluster // nil: no outage is to be tried
	mongoURI string
	binary   string
	dir      string
	rate     int
	series   int
}

// TestMain builds the program and starts a cluster of three brokers, if it is told where Kafka's jars are.
func TestMain(m *testing.M) {
	flag.Parse()
	code, err := runTests(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		code = 1
	}
	os.Exit(code)
}

func runTests(m *testing.M) (code int, err error) {
	jars := os.Getenv("E2E_KAFKA_LIBS")
	if jars == "" || *outageTime == 0 {
		return m.Run(), nil
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if world.dir, err = os.MkdirTemp("", "waterwheel-outages-"); err != nil {
		return 0, fmt.Errorf("making a folder: %w", err)
	}
	defer os.RemoveAll(world.dir)
	if world.binary, err = harness.Build(ctx, world.dir, false); err != nil {
		return 0, err
	}
	world.rate, world.series = 1000, 100
	if world.mongoURI = os.Getenv("E2E_MONGODB_URI"); world.mongoURI == "" {
		database, err := embedded.StartMongo()
		if err != nil {
			return 0, err
		}
		defer database.Close()
		world.mongoURI, world.rate, world.series = database.URI(), 60, 30
	}
	options := harness.ClusterOptions{Jars: jars, Dir: world.dir + "/kafka", Brokers: 3, Links: mostMembers}
	if world.cluster, err = harness.StartCluster(ctx, options); err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, world.cluster.Close()) }()
	return m.Run(), nil
}
