package bench

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"waterwheel/e2e/harness"
)

const (
	// following is the naive consumer that keeps up with a topic until it gets SIGTERM.
	following Peer = "following"
	// followWait and followBytes make a broker wait before it answers this consumer. So the consumer inserts the records of half
	// a second, at most 1,000 at a time, instead of a few at once.
	followWait  = 500 * time.Millisecond
	followBytes = 8 << 20
	// followMark begins the lines with the number of stored documents and of calls.
	followMark = "bench followed: "
)

// Follower is a naive consumer that keeps up with a topic.
type Follower struct{ *harness.Consumer }

// Follow starts a naive consumer in a process of its own. Until it gets SIGTERM, it inserts the records of a topic and commits
// them. It inserts into a plain collection with the topic's name and an index on series and time.
func (b *Bench) Follow(ctx context.Context, topic, database string) (*Follower, error) {
	client, err := mongo.Connect(options.Client().ApplyURI(b.Servers.MongoURI))
	if err != nil {
		return nil, fmt.Errorf("connecting to MongoDB: %w", err)
	}
	if err := errors.Join(createPlain(ctx, client.Database(database), topic), client.Disconnect(ctx)); err != nil {
		return nil, err
	}
	process, err := b.start(task{
		Peer: following, Brokers: b.Servers.Brokers, MongoURI: b.Servers.MongoURI, Database: database, Collection: topic, Group: topic,
	})
	return &Follower{process}, err
}

// Progress returns the number of documents inserted and committed so far, and the number of calls.
func (f *Follower) Progress() (documents, calls float64) { return lastProgress(f.Log()) }

// lastProgress reads the last complete progress line. Zeros mean that there is none yet.
func lastProgress(log string) (documents, calls float64) {
	whole := log[:strings.LastIndexByte(log, '\n')+1]
	if at := strings.LastIndex(whole, followMark); at >= 0 {
		if _, err := fmt.Sscanf(whole[at+len(followMark):], "%f in %f", &documents, &calls); err != nil {
			return 0, 0
		}
	}
	return documents, calls
}

// follow runs in the Follower's process.
func follow(ctx context.Context, t task, _ *stopwatch) error {
	n, err := openNaive(t, kgo.FetchMaxWait(followWait), kgo.FetchMinBytes(followBytes))
	if err != nil {
		return err
	}
	defer n.close(context.WithoutCancel(ctx))
	for documents, calls := 0, 0; ; {
		records, err := n.read(ctx)
		if err == nil {
			err = n.store(ctx, records)
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		}
		documents, calls = documents+len(records), calls+1
		fmt.Printf("%s%d in %d\n", followMark, documents, calls)
	}
}
