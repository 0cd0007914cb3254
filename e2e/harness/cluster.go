package harness

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"waterwheel/e2e/harness/proxy"
)

// ClusterOptions describes a cluster.
type ClusterOptions struct {
	// Jars is the folder of Kafka's jars, which is "libs" in its distribution.
	Jars string
	// Dir is the folder for the brokers' settings, logs and data. Close deletes it.
	Dir string
	// Brokers is the number of brokers. Each is a controller too.
	Brokers int
	// Links is the number of clients that reach the brokers through links of their own.
	Links int
	// Listeners are further listeners of each broker. Each has its own protocol.
	Listeners []Listener
	// Settings are further lines of the brokers' server.properties.
	Settings []string
	// Java are further arguments of the brokers' processes, before the class name.
	Java []string
	// Format are further arguments of the command that prepares the data folders.
	Format []string
}

// Listener is an additional listener of the brokers.
type Listener struct {
	// Name consists of upper-case letters.
	Name string
	// Protocol is a security protocol of Kafka: SASL_PLAINTEXT, SSL or SASL_SSL.
	Protocol string
	// Settings are lines of server.properties for this listener only, without its prefix.
	Settings []string
}

// Cluster is a real Kafka of several brokers, whose processes can be killed and started again. A client with a link learns only
// addresses of its links. A test can therefore disturb its connections without disturbing other clients.
type Cluster struct {
	options ClusterOptions
	brokers []*Broker
	links   [][]*proxy.Link // by client, then by broker
}

// A start of a cluster is tried clusterTries times, for clusterPatience each. A port may be taken meanwhile, or the machine may
// be slow.
const (
	clusterTries    = 3
	clusterPatience = 2 * time.Minute
)

// StartCluster starts a cluster and waits until all its brokers answer. It repeats a failed start with other ports. The caller
// closes the cluster.
func StartCluster(ctx context.Context, o ClusterOptions) (*Cluster, error) {
	if jars, err := filepath.Glob(filepath.Join(o.Jars, "kafka_*.jar")); err != nil || len(jars) == 0 {
		return nil, fmt.Errorf("starting a Kafka cluster: there are no jars of Kafka in %s", o.Jars)
	}
	var errs []error
	for try := 0; try < clusterTries && ctx.Err() == nil; try++ {
		c := &Cluster{options: o}
		err := c.start(ctx)
		if err == nil {
			return c, nil
		}
		errs = append(errs, err, c.Close())
	}
	return nil, fmt.Errorf("starting a Kafka cluster: %w", errors.Join(append(errs, ctx.Err())...))
}

func (c *Cluster) start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, clusterPatience)
	defer cancel()
	for id := 1; id <= c.options.Brokers; id++ {
		b, err := newBroker(id, c.options)
		if err != nil {
			return err
		}
		c.brokers = append(c.brokers, b)
	}
	for range c.options.Links {
		var links []*proxy.Link
		for _, b := range c.brokers {
			l, err := proxy.NewLink(b.advertised[len(c.links)], b.listeners[len(c.links)])
			if err != nil {
				return err
			}
			links = append(links, l)
		}
		c.links = append(c.links, links)
	}
	return c.startBrokers(ctx)
}

// startBrokers formats the data folders and starts all brokers.
func (c *Cluster) startBrokers(ctx context.Context) error {
	id := make([]byte, 16)
	rand.Read(id)
	var group errgroup.Group
	for _, b := range c.brokers {
		group.Go(func() error {
			if err := b.format(ctx, base64.RawURLEncoding.EncodeToString(id), c.voters(), c.options.Format); err != nil {
				return err
			}
			return b.Start()
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	if err := c.AwaitBrokers(ctx); err != nil {
		return err
	}
	for _, b := range c.brokers {
		if !b.Running() { // the other brokers may have formed a cluster without it
			return fmt.Errorf("broker %d ended:\n%s", b.id, b.current().Log())
		}
	}
	return nil
}

// eachBroker joins a text for each broker with commas.
func (c *Cluster) eachBroker(text func(*Broker) string) string {
	all := make([]string, len(c.brokers))
	for i, b := range c.brokers {
		all[i] = text(b)
	}
	return strings.Join(all, ",")
}

// voters lists the controllers, as the setting controller.quorum.voters expects them.
func (c *Cluster) voters() string {
	return c.eachBroker(func(b *Broker) string { return fmt.Sprintf("%d@%s", b.id, b.controller) })
}

// Address returns the bootstrap address for clients without a link.
func (c *Cluster) Address() string { return c.eachBroker(func(b *Broker) string { return b.direct }) }

// ListenerAddress returns the bootstrap address for clients of the named listener.
func (c *Cluster) ListenerAddress(name string) string {
	return c.eachBroker(func(b *Broker) string { return b.named[name] })
}

// LinkedAddress returns the bootstrap address for the given client, through its links.
func (c *Cluster) LinkedAddress(client int) string {
	return c.eachBroker(func(b *Broker) string { return b.advertised[client] })
}

// Links returns the links of a client, one for each broker.
func (c *Cluster) Links(client int) []*proxy.Link { return c.links[client] }

// Brokers returns the cluster's brokers.
func (c *Cluster) Brokers() []*Broker { return c.brokers }

// AwaitBrokers waits until every running broker is part of the cluster, and every replica of every topic is in sync.
func (c *Cluster) AwaitBrokers(ctx context.Context) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(c.Address(), ",")...), kgo.MetadataMinAge(20*time.Millisecond))
	if err != nil {
		return fmt.Errorf("making a client of the brokers: %w", err)
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	for {
		if c.formed(ctx, admin) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for the brokers (see %s): %w", c.options.Dir, ctx.Err())
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func (c *Cluster) formed(ctx context.Context, admin *kadm.Client) bool {
	for _, b := range c.brokers { // Kafka lists a broker before the broker opens its ports
		if b.Running() && !b.listening(ctx) {
			return false
		}
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	metadata, err := admin.Metadata(ctx)
	if err != nil || len(metadata.Brokers) != c.running() {
		return false
	}
	for _, t := range metadata.Topics {
		for _, p := range t.Partitions {
			if p.Err != nil || len(p.ISR) < min(len(p.Replicas), len(metadata.Brokers)) {
				return false
			}
		}
	}
	return true
}

func (c *Cluster) running() int {
	n := 0
	for _, b := range c.brokers {
		if b.Running() {
			n++
		}
	}
	return n
}

// Close kills the brokers and deletes their folder.
func (c *Cluster) Close() error {
	for _, b := range c.brokers {
		b.Kill()
	}
	for _, links := range c.links {
		for _, l := range links {
			l.Close()
		}
	}
	if err := os.RemoveAll(c.options.Dir); err != nil {
		return fmt.Errorf("deleting the cluster's folder: %w", err)
	}
	return nil
}
