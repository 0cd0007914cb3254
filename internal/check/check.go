package check

import (
	"context"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/bucketer"
	"waterwheel/dlq"
	"waterwheel/internal/claim"
	"waterwheel/internal/collection"
	"waterwheel/internal/kafka"
	"waterwheel/internal/measurement"
	"waterwheel/internal/mongodb"
	"waterwheel/internal/record"
)

// Options are what to look at.
type Options struct {
	// Kafka and Database are the servers. Nil means that the server does not answer.
	Kafka    *kafka.Scanner
	Database *mongodb.Database

	// User has logged in to Kafka. Empty means that nobody has.
	User    string
	GroupID string
	Topics  []Topic
	// Begins says where a group without offsets begins, OutOfRange what is done about offsets beyond the log's end.
	Begins     string
	OutOfRange claim.OutOfRange
	// Letters are the settings of dead letters. Nil means that there are none.
	Letters *dlq.Options

	// Settings say how time series are set up.
	Settings collection.Settings
	// Filter is a filter on measurements whose cost is of interest. Nil means none.
	Filter bson.Raw

	// Sample is how many of the newest records of each topic are decoded. Zero means none.
	Sample int
	// Progress begins to tell how far the sample of a topic is, and returns what tells it and what ends that.
	Progress func(topic string) (at func(done int), end func())
}

// Topic is a topic, the name of its time series, and that with the database's name before it.
type Topic struct {
	Name, Series, Namespace string
	// Decoding and Bucketing are what events are made measurements and buckets with.
	Decoding  measurement.Options
	Bucketing bucketer.Options
}

// look is one look at everything.
type look struct {
	Options
	*Findings
	clusterID string                              // Empty means that Kafka does not answer.
	spans     map[string][]dlq.Span               // of the topics that can be read
	longest   int                                 // record of these topics, in bytes
	documents map[record.Partition]claim.Document // what MongoDB has of the partitions
}

// Look looks at everything and adds what it finds. The error tells that the context has ended: what failed since then says
// nothing about the servers.
func (o Options) Look(ctx context.Context, found *Findings) (samples []Sample, err error) {
	l := look{Options: o, Findings: found, spans: map[string][]dlq.Span{}, documents: map[record.Partition]claim.Document{}}
	if l.Kafka != nil {
		l.clusterID = l.Kafka.ClusterID()
		l.topics(ctx)
		l.letters(ctx)
	}
	if l.Database != nil {
		l.mongoDB(ctx)
	}
	if l.Kafka != nil {
		l.group(ctx)
		samples = l.samples(ctx)
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("interrupted: %w", context.Cause(ctx))
	}
	return samples, nil
}

// showTime writes a time as the tables do.
func showTime(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z") }
