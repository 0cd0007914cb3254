package continuity

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"waterwheel/e2e/bench"
	"waterwheel/e2e/harness"
)

// world holds the servers and the program that all tests share.
var world struct {
	servers *harness.Servers
	binary  string
}

// measure and measured are flags of TestContinuity.
var (
	measure  = flag.Bool("measure", false, "measure the scenarios; otherwise TestContinuity is skipped")
	measured = Options{Settings: harness.Settings{}, Series: 120, Partitions: 12, After: 15 * time.Second, Patience: 5 * time.Minute, Log: os.Stdout}
)

func TestMain(m *testing.M) {
	flag.Func("only", "scenarios to measure, comma-separated: kill, kill-static, join, leave, leave-dead, rolling (default: all)", func(list string) error {
		measured.Scenarios = strings.Split(list, ",")
		_, err := named(measured.Scenarios)
		return err
	})
	flag.IntVar(&measured.Rate, "rate", 2000, "measurements a second")
	flag.DurationVar(&measured.Before, "before", time.Minute, "how long to look on before a disturbance, longer than two flushes")
	flag.Func("set", "a setting of the measured consumers, NAME=VALUE; can be repeated (default: the program's defaults)", harness.Pairs(func(name, value string) {
		measured.Settings[name] = value
	}))
	harness.Main(m, "continuity", func(ctx context.Context, s *harness.Shared) (err error) {
		if world.binary, err = harness.Build(ctx, s.Dir, false); err != nil {
			return err
		}
		if world.servers, err = s.Servers(ctx, *measure); err != nil {
			return err
		}
		fmt.Println("continuity:", world.servers)
		return nil
	})
}

// TestContinuity measures scenarios with the default settings, and prints the table. If a scenario fails, the table has the results
// before it.
func TestContinuity(t *testing.T) {
	if !*measure {
		t.Skip("nothing is measured: make continuity does, with -measure")
	}
	ctx, stop := signal.NotifyContext(t.Context(), os.Interrupt, syscall.SIGTERM) // an interrupted scenario deletes its data
	defer stop()
	o := measured
	o.Servers, o.Consumer = world.servers, world.binary
	machine := bench.Machine(ctx, o.Servers)
	results, err := Run(ctx, o)
	fmt.Printf("\n%s- %d measurements a second over %d series and %d partitions; undisturbed for %s; %v\n\n%s\n",
		machine, o.Rate, o.Series, o.Partitions, o.Before, o.Settings, Table(results))
	if err != nil {
		t.Error(err)
	}
}

// TestScenarios checks a killed consumer and an added one. The partitions of the killed consumer stand still for as long as their
// next owner must wait. The added consumer gets its share. All measurements are stored once.
func TestScenarios(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	others := databases(ctx, t)
	log := &strings.Builder{}
	results, err := Run(ctx, Options{
		Servers: world.servers, Consumer: world.binary, Scenarios: []string{"kill", "join"}, Rate: 80, Series: 8, Partitions: 4,
		Settings: world.servers.Short("", "").Without("KAFKA_BROKERS", "KAFKA_TOPICS", "KAFKA_GROUP_ID", "MONGODB_URI", "MONGODB_DATABASE", "LOG_FORMAT"),
		Before:   4 * time.Second, After: 3 * time.Second, Patience: time.Minute, Log: log,
	})
	if err != nil {
		t.Fatalf("%v\n%s", err, log)
	}
	t.Log("\n" + Table(results))
	if len(results) != 2 {
		t.Fatalf("%d results", len(results))
	}
	kill, join := results[0], results[1]
	for _, r := range results {
		if r.Valid < 500 || r.Stored != r.Valid || r.Own.Partitions+r.Others.Partitions != 4 || r.Before.Partitions != 4 {
			t.Errorf("%+v", r)
		}
		if r.Before.Longest > 3*time.Second || r.FreshnessBefore.Samples == 0 || r.FreshnessBefore.P50 <= 0 || r.Looked == 0 {
			t.Errorf("undisturbed: %+v", r)
		}
	}
	// The next owner waits for KAFKA_LEASE and two MONGODB_WRITE_TIMEOUTs, minus the part that is over when the consumer is
	// killed.
	if least := 5 * time.Second; kill.Own.Longest < least || kill.Freshness.Max < least || kill.Recovered < least {
		t.Errorf("killed: its own partitions stood still for %s s, %+v", kill.Own, kill)
	}
	if kill.Own.Least <= kill.Others.Longest {
		t.Errorf("killed: its own partitions stood still for %s s, the others', for which nobody waits, for %s s", kill.Own, kill.Others)
	}
	if join.Own.Partitions != 1 || join.Moved < 1 || join.Own.Longest > kill.Own.Longest {
		t.Errorf("added: its own partitions stood still for %s s, %+v", join.Own, join)
	}
	if left := databases(ctx, t); !slices.Equal(left, others) {
		t.Errorf("databases %v are left, there were %v", left, others)
	}
}

// databases returns the names of the databases that scenarios have made.
func databases(ctx context.Context, t *testing.T) (left []string) {
	t.Helper()
	client, err := mongo.Connect(options.Client().ApplyURI(world.servers.MongoURI))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Disconnect(context.WithoutCancel(ctx))
	names, err := client.ListDatabaseNames(ctx, bson.D{})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if strings.HasPrefix(name, "continuity-") {
			left = append(left, name)
		}
	}
	return left
}
