package continuity

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"waterwheel/e2e/harness"
)

// world holds the servers and the program that all tests share.
var world struct {
	servers *harness.Servers
	binary  string
}

func TestMain(m *testing.M) {
	harness.Main(m, "continuity", func(ctx context.Context, s *harness.Shared) (err error) {
		if world.binary, err = harness.Build(ctx, s.Dir, false); err != nil {
			return err
		}
		if world.servers, err = harness.StartServers(ctx); err != nil {
			return err
		}
		s.AtEnd(world.servers.Close)
		fmt.Println("continuity:", world.servers)
		return nil
	})
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
