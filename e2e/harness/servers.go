package harness

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"waterwheel/e2e/embedded"
	"waterwheel/e2e/harness/proxy"
)

// Servers is a Kafka and a MongoDB. E2E_KAFKA_BROKERS and E2E_MONGODB_URI name them. An embedded server replaces one that is not
// named.
type Servers struct {
	Brokers  string
	MongoURI string
	// programURI is the URI of the program under test. Empty stands for MongoURI.
	programURI string
	// GivenKafka and GivenMongo are true for a server that the environment or the caller names, and false for an embedded one.
	GivenKafka, GivenMongo bool

	kafka *embedded.Kafka
	mongo *embedded.Mongo
	admin *kadm.Client
	slow  bool
	watch *proxy.Keys // Nil means that the commands of the program are not read.
}

// StartServers starts an embedded server for each that is not given, and checks that both answer. The caller closes them.
func StartServers(ctx context.Context) (*Servers, error) {
	s := &Servers{Brokers: os.Getenv("E2E_KAFKA_BROKERS"), MongoURI: os.Getenv("E2E_MONGODB_URI")}
	s.GivenKafka, s.GivenMongo = s.Brokers != "", s.MongoURI != ""
	err := s.start()
	if err == nil {
		err = s.probe(ctx)
	}
	if err == nil {
		err = s.watchKeys()
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// GivenServers returns a Kafka and a MongoDB at the given addresses, and ignores the environment. The caller closes them.
func GivenServers(ctx context.Context, brokers, mongoURI string) (*Servers, error) {
	s := &Servers{Brokers: brokers, MongoURI: mongoURI, GivenKafka: true, GivenMongo: true}
	return s, s.probe(ctx)
}

// watchKeys reads the commands that the program sends to a given MongoDB that has one address and no TLS. Close then returns an
// error about writes that lack the shard key.
func (s *Servers) watchKeys() error {
	if !s.GivenMongo || !strings.HasPrefix(s.MongoURI, "mongodb://") || strings.Contains(s.MongoURI, ",") || strings.Contains(s.MongoURI, "tls=true") {
		return nil
	}
	watch, err := proxy.NewKeys(s.MongoURI)
	if err != nil {
		return err
	}
	s.watch, s.programURI = watch, watch.URI()
	return nil
}

// start starts the embedded servers that are needed.
func (s *Servers) start() (err error) {
	if !s.GivenKafka {
		if s.kafka, err = embedded.StartKafka(); err != nil {
			return err
		}
		s.Brokers = s.kafka.Brokers()
	}
	if !s.GivenMongo {
		if s.mongo, err = embedded.StartMongo(); err != nil {
			return err
		}
		s.MongoURI = s.mongo.URI()
	}
	return nil
}

// Both servers are asked for a first answer probeTries times, for probePatience each, because a machine may be slow.
const (
	probeTries    = 3
	probePatience = 20 * time.Second
)

// probe asks both servers for an answer, and asks MongoDB for its build.
func (s *Servers) probe(ctx context.Context) error {
	var errs []error
	for try := 0; try < probeTries && ctx.Err() == nil; try++ {
		err := s.ask(ctx)
		if err == nil {
			return nil
		}
		errs = append(errs, err)
	}
	return errors.Join(append(errs, ctx.Err())...)
}

func (s *Servers) ask(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probePatience)
	defer cancel()
	if s.admin == nil {
		client, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(s.Brokers, ",")...), kgo.MetadataMinAge(20*time.Millisecond))
		if err != nil {
			return fmt.Errorf("making a client of the Kafka at %s: %w", s.Brokers, err)
		}
		s.admin = kadm.NewClient(client)
	}
	if _, err := s.admin.BrokerMetadata(ctx); err != nil {
		return fmt.Errorf("asking the Kafka at %s for metadata: %w", s.Brokers, err)
	}
	database, err := mongo.Connect(options.Client().ApplyURI(s.MongoURI))
	if err != nil {
		return fmt.Errorf("connecting to the MongoDB: %w", err)
	}
	defer database.Disconnect(context.WithoutCancel(ctx))
	var info struct {
		FerretDB bson.RawValue `bson:"ferretdb"`
	}
	if err := database.Database("admin").RunCommand(ctx, bson.D{{Key: "buildInfo", Value: 1}}).Decode(&info); err != nil {
		return fmt.Errorf("asking the MongoDB for its build: %w", err)
	}
	s.slow = !s.GivenMongo || !info.FerretDB.IsZero()
	return nil
}

// DropDatabase drops a database.
func (s *Servers) DropDatabase(ctx context.Context, name string) error {
	client, err := mongo.Connect(options.Client().ApplyURI(s.MongoURI))
	if err != nil {
		return fmt.Errorf("connecting to the MongoDB: %w", err)
	}
	defer client.Disconnect(context.WithoutCancel(ctx))
	if err := client.Database(name).Drop(ctx); err != nil {
		return fmt.Errorf("dropping database %s: %w", name, err)
	}
	return nil
}

// Slow reports whether the MongoDB scans a collection for most filters, so that a test must keep it small.
func (s *Servers) Slow() bool { return s.slow }

// String names the servers.
func (s *Servers) String() string {
	k, m := "embedded Kafka", "embedded MongoDB"
	if s.GivenKafka {
		k = "Kafka at " + s.Brokers
	}
	if s.GivenMongo {
		m = "MongoDB as E2E_MONGODB_URI says"
	}
	return k + ", " + m
}

// Close stops the embedded servers. Given servers keep running.
func (s *Servers) Close() error {
	if s.admin != nil {
		s.admin.Close()
	}
	if s.kafka != nil {
		s.kafka.Close()
	}
	var errs []error
	if s.watch != nil {
		s.watch.Close()
		errs = append(errs, s.watch.Err())
	}
	if s.mongo != nil {
		errs = append(errs, s.mongo.Close())
	}
	return errors.Join(errs...)
}

// EmbeddedMongo starts an embedded MongoDB for one test.
func EmbeddedMongo(t *testing.T) *embedded.Mongo {
	t.Helper()
	m, err := embedded.StartMongo()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

// LinkMongo puts a link that can be cut between the consumers of one test and MongoDB. It returns the link and the URI through
// it.
func (s *Servers) LinkMongo(t *testing.T) (*proxy.Link, string) {
	t.Helper()
	if strings.Contains(s.MongoURI, ",") {
		t.Skip("E2E_MONGODB_URI names several servers: one cannot be put behind a link")
	}
	l, uri, err := s.NewMongoLink()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l, uri
}

// NewMongoLink puts a link in front of a MongoDB of one address. It returns the link, which the caller closes, and the URI through
// it.
func (s *Servers) NewMongoLink() (*proxy.Link, string, error) {
	uri, err := url.Parse(s.MongoURI)
	if err != nil {
		return nil, "", fmt.Errorf("reading the MongoDB's URI: %w", err)
	}
	address, err := NewLinkAddress()
	if err != nil {
		return nil, "", err
	}
	l, err := proxy.NewLink(address, uri.Host)
	if err != nil {
		return nil, "", err
	}
	return l, l.Through(uri), nil
}
