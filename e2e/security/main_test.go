package security

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kversion"

	"waterwheel/e2e/embedded"
	"waterwheel/e2e/harness"
)

// world is what all tests share; it does not change once they run.
var world struct {
	servers *harness.Servers // its Kafka is the plain listener, where everybody may do everything
	cluster *harness.Cluster // nil: Kafka's jars are not given
	admin   *kgo.Client
	files   files
	binary  string
}

// TestMain builds the program, makes certificates and starts a broker, if it is told where Kafka's jars are.
func TestMain(m *testing.M) {
	flag.Parse()
	code, err := runTests(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "security:", err)
		code = 1
	}
	os.Exit(code)
}

func runTests(m *testing.M) (code int, err error) {
	jars := os.Getenv("E2E_KAFKA_LIBS")
	if jars == "" || testing.Short() {
		return m.Run(), nil
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	dir, err := os.MkdirTemp("", "waterwheel-security-")
	if err != nil {
		return 0, fmt.Errorf("making a folder: %w", err)
	}
	defer os.RemoveAll(dir)
	if world.binary, err = harness.Build(ctx, dir, false); err != nil {
		return 0, err
	}
	if world.files, err = newFiles(dir); err != nil {
		return 0, err
	}
	uri := os.Getenv("E2E_MONGODB_URI")
	if uri == "" {
		database, err := embedded.StartMongo()
		if err != nil {
			return 0, err
		}
		defer database.Close()
		uri = database.URI()
	}
	starting, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	if world.cluster, err = harness.StartCluster(starting, clusterOptions(jars, filepath.Join(dir, "kafka"), world.files)); err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, world.cluster.Close()) }()
	if world.servers, err = harness.GivenServers(ctx, world.cluster.Address(), uri); err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, world.servers.Close()) }()
	if world.admin, err = kgo.NewClient(kgo.SeedBrokers(world.cluster.Address()), kgo.MaxVersions(kversion.V3_6_0())); err != nil {
		return 0, fmt.Errorf("connecting to the broker: %w", err)
	}
	defer world.admin.Close()
	if err := grantAll(ctx); err != nil {
		return 0, err
	}
	return m.Run(), nil
}

// needsBroker skips a test without the jars.
func needsBroker(t *testing.T) {
	t.Helper()
	if world.cluster == nil {
		t.Skip("E2E_KAFKA_LIBS, the folder of Kafka's jars, is not set: no login, certificate or right is tried")
	}
}

// within is a context for one test.
func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}
