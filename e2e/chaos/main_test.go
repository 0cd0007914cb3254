package chaos

import (
	"context"
	"flag"
	"os"
	"testing"

	"waterwheel/e2e/harness"
)

var outageTime = flag.Duration("outage", 0, "duration of an outage; 0 tries no outage")

// world is shared by the tests. It does not change after they start.
var world struct {
	cluster  *harness.Cluster // nil means that no outage is tested
	mongoURI string
	binary   string
	dir      string
	rate     int
	series   int
}

// TestMain builds the program and starts a cluster of three brokers if the Kafka jars are given.
func TestMain(m *testing.M) {
	harness.Main(m, "chaos", func(ctx context.Context, s *harness.Shared) (err error) {
		jars := os.Getenv("E2E_KAFKA_LIBS")
		if jars == "" || *outageTime == 0 {
			return nil
		}
		world.dir = s.Dir
		if world.binary, err = harness.Build(ctx, s.Dir, false); err != nil {
			return err
		}
		world.rate, world.series = 1000, 100
		if world.mongoURI = os.Getenv("E2E_MONGODB_URI"); world.mongoURI == "" {
			if world.mongoURI, err = s.Mongo(); err != nil {
				return err
			}
			world.rate, world.series = 60, 30
		}
		options := harness.ClusterOptions{Jars: jars, Dir: s.Dir + "/kafka", Brokers: 3, Links: mostMembers}
		if world.cluster, err = harness.StartCluster(ctx, options); err != nil {
			return err
		}
		s.AtEnd(world.cluster.Close)
		return nil
	})
}
