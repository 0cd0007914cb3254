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

// Options define what to check.
type Options struct {
	// Kafka and Database are the servers. Nil means that the server does not answer.
	Kafka    *kafka.Scanner
	Database *mongodb.Database

	// User is the user of the login to Kafka. Empty means no login.
	User    string
	GroupID string
	Topics  []Topic
	// Begins is where a group without offsets begins. OutOfRange is what happens to offsets beyond the log's end.
	Begins     string
	OutOfRange claim.OutOfRange
	// Letters are the settings of dead letters. Nil means that there are none.
	Letters *dlq.Options

	// Settings are how time series are set up.
	Settings collection.Settings
	// Filter is a filter on measurements whose cost is to be checked. Nil means none.
	Filter bson.Raw

	// Sample is how many of the newest records of each topic are decoded. Zero means none.
	Sample int
	// Progress starts the progress display for the sample of a topic. at updates the display, and end ends it.
	Progress func(topic string) (at func(done int), end func())
}

// Topic is a topic with its time series. Namespace is the name of the series prefixed with that of the database.
type Topic struct {
	Name, Series, Namespace string
	// Decoding and Bucketing are the options that turn events into measurements and buckets.
	Decoding  measurement.Options
	Bucketing bucketer.Options
}

// look is one check of everything.
type look struct {
	Options
	*Findings
	clusterID string                              // Empty means that Kafka does not answer.
	spans     map[string][]dlq.Span               // of the topics that can be read
	longest   int                                 // longest record of these topics, in bytes
	documents map[record.Partition]claim.Document // the partition documents in MongoDB
	empty     map[string]bool                     // topics whose collections are not set up
}

// Look checks everything and adds what it finds. The error means that the context has ended. Failures after that would say
// nothing about the servers.
func (o Options) Look(ctx context.Context, found *Findings) (samples []Sample, err error) {
	l := look{Options: o, Findings: found, spans: map[string][]dlq.Span{}, documents: map[record.Partition]claim.Document{}, empty: map[string]bool{}}
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

// showTime formats a time as the tables do.
func showTime(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z") }
