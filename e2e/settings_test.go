package e2e_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"waterwheel/e2e/embedded"
	"waterwheel/e2e/harness"
)

// refusal is a way to start the program that must fail, with a message that says what to do.
type refusal struct {
	name     string
	settings harness.Settings
	args     []string
	code     int
	says     []string // all of these, in any order
}

// TestRefusesBadSettings checks that all problems are named at once with their variables, and that the exit code is that of wrong
// usage.
func TestRefusesBadSettings(t *testing.T) {
	t.Parallel()
	good := world.servers.Short("events", "e2e")
	for _, r := range []refusal{
		{name: "nothing set", settings: harness.Settings{}, code: 2, says: []string{"KAFKA_BROKERS", "KAFKA_TOPICS", "MONGODB_URI"}},
		{
			name: "unknown variables", settings: good.With("KAFKA_BROKER", "x", "FLUSH_INTERVALL", "1s"), code: 2,
			says: []string{"KAFKA_BROKER:", "did you mean KAFKA_BROKERS?", "did you mean FLUSH_INTERVAL?"},
		},
		{
			name: "bad values", settings: good.With("FLUSH_INTERVAL", "soon", "MEMORY_LIMIT", "lots", "KAFKA_START", "yesterday"), code: 2,
			says: []string{"FLUSH_INTERVAL", "soon", "MEMORY_LIMIT", "lots", "KAFKA_START", "yesterday"},
		},
		{name: "a short lease", settings: good.With("KAFKA_LEASE", "300ms"), code: 2, says: []string{"KAFKA_LEASE", "COMMIT_INTERVAL"}},
		{name: "a short shutdown", settings: good.With("SHUTDOWN_TIMEOUT", "1s"), code: 2, says: []string{"SHUTDOWN_TIMEOUT", "MONGODB_WRITE_TIMEOUT"}},
		{name: "a database MongoDB cannot have", settings: good.With("MONGODB_DATABASE", "a b"), code: 2, says: []string{"MONGODB_DATABASE", "a b"}},
		{name: "a collection MongoDB cannot have", settings: good.With("MONGODB_COLLECTION", "a$b"), code: 2, says: []string{"MONGODB_COLLECTION", "a$b"}},
		{name: "colliding collections", settings: good.With("KAFKA_TOPICS", "a,a.buckets"), code: 2, says: []string{"a.buckets"}},
		{name: "a password file that is not there", settings: good.Without("MONGODB_URI").With("MONGODB_URI_FILE", "/nowhere/uri"), code: 2, says: []string{"MONGODB_URI_FILE", "/nowhere/uri"}},
		{name: "an unknown command", settings: good, args: []string{"strat"}, code: 2, says: []string{"strat"}},
		{name: "an unknown flag", settings: good, args: []string{"run", "--fast"}, code: 2, says: []string{"--fast"}},
	} {
		t.Run(r.name, r.test)
	}
}

// TestRefusesUnreachableServers checks that a server that is unreachable or refuses the password at the start is named with its
// setting.
func TestRefusesUnreachableServers(t *testing.T) {
	t.Parallel()
	ctx := within(t, 30*time.Second)
	topic := fmt.Sprintf("e2e-unreachable-%x", time.Now().UnixNano()&0xffffff)
	if err := world.servers.CreateTopic(ctx, topic, 1); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := world.servers.DeleteTopics(context.WithoutCancel(ctx), topic); err != nil {
			t.Error(err)
		}
	})
	good := world.servers.Short(topic, databaseOf(topic))
	secured := startSecuredKafka(t)
	sasl := good.With("KAFKA_BROKERS", secured, "KAFKA_SECURITY", "sasl_plaintext", "KAFKA_SASL_MECHANISM", "PLAIN", "KAFKA_SASL_USERNAME", "writer")
	nobody := unusedAddress(t)

	cases := []refusal{
		{name: "no broker", settings: good.With("KAFKA_BROKERS", nobody, "START_TIMEOUT", "2s"), code: 1, says: []string{"KAFKA_BROKERS", nobody, "START_TIMEOUT"}},
		{name: "a broker that wants a password", settings: good.With("KAFKA_BROKERS", secured), code: 1, says: []string{"KAFKA_SECURITY"}},
		{name: "the wrong Kafka password", settings: sasl.With("KAFKA_SASL_PASSWORD", "s3cret-wrong"), code: 1, says: []string{"KAFKA_SASL_"}},
		{
			name: "no database", settings: good.With("MONGODB_URI", "mongodb://"+nobody+"/?serverSelectionTimeoutMS=1500", "START_TIMEOUT", "3s"), code: 1,
			says: []string{"MONGODB_URI", nobody, "START_TIMEOUT"},
		},
		{name: "a topic that is not there", settings: good.With("KAFKA_TOPICS", topic+"-missing"), code: 1, says: []string{topic + "-missing", "KAFKA_TOPICS"}},
	}
	if !strings.Contains(world.servers.MongoURI, "@") {
		uri := strings.Replace(world.servers.MongoURI, "mongodb://", "mongodb://writer:s3cret-wrong@", 1)
		cases = append(cases, refusal{name: "the wrong MongoDB password", settings: good.With("MONGODB_URI", uri), code: 1, says: []string{"MONGODB_URI"}})
	}
	for _, r := range cases {
		t.Run(r.name, r.test)
	}
}

// TestSpeaksSASL checks each mechanism with the right password.
func TestSpeaksSASL(t *testing.T) {
	t.Parallel()
	secured := startSecuredKafka(t)
	for _, mechanism := range []string{"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"} {
		t.Run(mechanism, func(t *testing.T) {
			database := fmt.Sprintf("e2e-sasl-%x", time.Now().UnixNano()&0xffffff)
			c, err := harness.Start(world.binary, world.servers.Short("events", database).With(
				"KAFKA_BROKERS", secured, "KAFKA_SECURITY", "sasl_plaintext", "KAFKA_GROUP_ID", mechanism,
				"KAFKA_SASL_MECHANISM", mechanism, "KAFKA_SASL_USERNAME", "writer", "KAFKA_SASL_PASSWORD", "s3cret"))
			if err != nil {
				t.Fatal(err)
			}
			defer c.Kill()
			if err := c.AwaitReady(within(t, 20*time.Second)); err != nil {
				t.Fatal(err)
			}
			if strings.Contains(c.Log(), "s3cret") {
				t.Errorf("the password is in the log:\n%s", c.Log())
			}
			if code, err := c.Terminate(within(t, 20*time.Second)); err != nil || code != 0 {
				t.Errorf("ended with code %d: %v", code, err)
			}
			if err := world.servers.DropDatabase(within(t, 10*time.Second), database); err != nil {
				t.Error(err)
			}
		})
	}
}

// test starts the program and checks how it ends.
func (r refusal) test(t *testing.T) {
	c, err := harness.Start(world.binary, r.settings, r.args...)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Kill()
	code, err := c.Wait(within(t, 40*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	printed := c.Log()
	if code != r.code {
		t.Errorf("exit code %d, want %d", code, r.code)
	}
	for _, part := range r.says {
		if !strings.Contains(printed, part) {
			t.Errorf("the message lacks %q", part)
		}
	}
	for _, never := range []string{"goroutine ", "panic:", "s3cret"} {
		if strings.Contains(printed, never) {
			t.Errorf("it printed %q", never)
		}
	}
	if t.Failed() {
		t.Logf("printed:\n%s", printed)
	}
}

// startSecuredKafka starts a cluster that requires the password "s3cret" of the user "writer", with a topic "events".
func startSecuredKafka(t *testing.T) string {
	t.Helper()
	options := []kfake.Opt{kfake.EnableSASL(), kfake.SeedTopics(1, "events", "events.dlq")}
	for _, mechanism := range []string{"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"} {
		options = append(options, kfake.Superuser(mechanism, "writer", "s3cret"))
	}
	k, err := embedded.StartKafka(options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.Close)
	return k.Brokers()
}

// unusedAddress returns an address with a free port.
func unusedAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}
