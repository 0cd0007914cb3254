// Package embedded runs two servers inside a Go process: a Kafka (kfake) and a MongoDB (FerretDB on SQLite). They need neither
// installation nor network, and live as long as the process that started them.
//
// Both are imitations. kfake speaks the protocol without replication or a disk. FerretDB scans a collection for any filter other
// than _id, so it suits some thousand documents. It loses some of several concurrent changes, so this package lets it make one at
// a time.
package embedded

import (
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kfake"
)

// Kafka is a Kafka cluster of one broker in this process.
type Kafka struct {
	cluster *kfake.Cluster
}

// StartKafka starts a cluster on a free port of the loopback interface. Further options (SASL, more brokers) are kfake's own. The
// caller closes the cluster.
func StartKafka(options ...kfake.Opt) (*Kafka, error) {
	defaults := []kfake.Opt{
		kfake.NumBrokers(1),
		kfake.ClusterID("waterwheel-embedded"),
	}
	cluster, err := kfake.NewCluster(append(defaults, options...)...)
	if err != nil {
		return nil, fmt.Errorf("starting the embedded Kafka: %w", err)
	}
	return &Kafka{cluster: cluster}, nil
}

// Brokers returns the bootstrap addresses, separated by commas.
func (k *Kafka) Brokers() string { return strings.Join(k.cluster.ListenAddrs(), ",") }

// Close stops the cluster and discards its data.
func (k *Kafka) Close() { k.cluster.Close() }
