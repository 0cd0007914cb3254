package check

import (
	"context"
	"fmt"

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
	// DeadLetters are the settings of dead letters. Nil means that there are none.
	DeadLetters *dlq.Options

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
		l.deadLetters(ctx)
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

// State is how much a finding matters.
type State string

// These are the states of findings.
const (
	OK      State = "ok"
	Note    State = "note"    // worth knowing
	Warning State = "warning" // works, and may cost something
	Wrong   State = "wrong"   // does not work, or breaks the guarantee
)

// Finding is one line of the result.
type Finding struct {
	State   State  `json:"state"`
	Subject string `json:"subject"`
	Text    string `json:"text"`
	// WayOut says what to do about it. Empty means that there is nothing to do.
	WayOut string `json:"wayOut,omitempty"`
}

// Findings are the result, in order.
type Findings []Finding

// OK adds a good finding.
func (f *Findings) OK(subject, format string, args ...any) {
	*f = append(*f, Finding{OK, subject, fmt.Sprintf(format, args...), ""})
}

// Note adds a finding that is worth knowing.
func (f *Findings) Note(subject, format string, args ...any) {
	*f = append(*f, Finding{Note, subject, fmt.Sprintf(format, args...), ""})
}

// Warn adds a finding that works but may cost something.
func (f *Findings) Warn(subject, wayOut, format string, args ...any) {
	*f = append(*f, Finding{Warning, subject, fmt.Sprintf(format, args...), wayOut})
}

// Wrong adds a finding that does not work.
func (f *Findings) Wrong(subject, wayOut, format string, args ...any) {
	*f = append(*f, Finding{Wrong, subject, fmt.Sprintf(format, args...), wayOut})
}

// Failed adds an error of one of the servers. The error's text includes the way out.
func (f *Findings) Failed(subject string, err error) { f.Wrong(subject, "", "%v", err) }

// Count counts the findings of a state.
func (f Findings) Count(state State) (n int) {
	for _, one := range f {
		if one.State == state {
			n++
		}
	}
	return n
}

// plural formats a number of things.
func plural(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return count(n) + " " + thing + "s"
}

// count formats a number with thousands separators.
func count(n int) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
