package security

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kversion"

	"waterwheel/e2e/harness"
)

// world is shared by all tests. It does not change after the tests start.
var world struct {
	servers *harness.Servers // its Kafka is the plain listener, where every client has all rights
	cluster *harness.Cluster // nil means that the Kafka jars are not given.
	admin   *kgo.Client
	files   files
	signer  *signer
	binary  string
}

// TestMain builds the program, makes certificates and starts a broker if the Kafka jars are given.
func TestMain(m *testing.M) {
	harness.Main(m, "security", func(ctx context.Context, s *harness.Shared) (err error) {
		jars := os.Getenv("E2E_KAFKA_LIBS")
		if jars == "" || testing.Short() {
			return nil
		}
		if world.binary, err = harness.Build(ctx, s.Dir, false); err != nil {
			return err
		}
		if world.files, err = newFiles(s.Dir); err != nil {
			return err
		}
		if world.signer, err = newSigner(world.files); err != nil {
			return err
		}
		return startBroker(ctx, s, jars)
	})
}

// startBroker starts the broker with all its listeners, and a database unless one is given.
func startBroker(ctx context.Context, s *harness.Shared, jars string) (err error) {
	uri := os.Getenv("E2E_MONGODB_URI")
	if uri == "" {
		if uri, err = s.Mongo(); err != nil {
			return err
		}
	}
	starting, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	if world.cluster, err = harness.StartCluster(starting, clusterOptions(jars, filepath.Join(s.Dir, "kafka"), world.files)); err != nil {
		return err
	}
	s.AtEnd(world.cluster.Close)
	if world.servers, err = harness.GivenServers(ctx, world.cluster.Address(), uri); err != nil {
		return err
	}
	s.AtEnd(world.servers.Close)
	if world.admin, err = kgo.NewClient(kgo.SeedBrokers(world.cluster.Address()), kgo.MaxVersions(kversion.V3_6_0())); err != nil {
		return fmt.Errorf("connecting to the broker: %w", err)
	}
	s.AtEnd(func() error { world.admin.Close(); return nil })
	return grantAll(ctx)
}

// needsBroker skips a test if the Kafka jars are not given.
func needsBroker(t *testing.T) {
	t.Helper()
	if world.cluster == nil {
		t.Skip("E2E_KAFKA_LIBS, the folder of Kafka's jars, is not set: no login, certificate or right is tried")
	}
}

// within returns a context for one test.
func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}
