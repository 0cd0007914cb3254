package chaos

import (
	"context"
	"fmt"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// pulse writes a small document again and again, on a connection that nothing disturbs. It measures how long the database itself
// holds a command before it executes it. A server that honours maxTimeMS aborts a command after the write timeout. A server that
// does not, and holds a command for longer than the grace, breaks the assumption of the consumers.
type pulse struct {
	cancel context.CancelFunc
	done   sync.WaitGroup

	mu   sync.Mutex
	most time.Duration
}

// startPulse begins to write. A write that fails is not counted, so an outage that the run causes is no slow answer.
func startPulse(ctx context.Context, uri, database string) (*pulse, error) {
	client, err := mongo.Connect(options.Client().ApplyURI(uri).SetRetryWrites(false))
	if err != nil {
		return nil, fmt.Errorf("connecting to measure the database: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	p := &pulse{cancel: cancel}
	p.done.Go(func() {
		defer client.Disconnect(context.WithoutCancel(ctx))
		p.beat(ctx, client.Database(database).Collection("pulse"))
	})
	return p, nil
}

func (p *pulse) beat(ctx context.Context, collection *mongo.Collection) {
	for ctx.Err() == nil {
		sent := time.Now()
		_, err := collection.UpdateOne(ctx, bson.D{{Key: "_id", Value: 1}}, bson.D{{Key: "$inc", Value: bson.D{{Key: "n", Value: 1}}}},
			options.UpdateOne().SetUpsert(true))
		if took := time.Since(sent); err == nil {
			p.mu.Lock()
			p.most = max(p.most, took)
			p.mu.Unlock()
		}
		sleep(ctx, 100*time.Millisecond)
	}
}

// slowest returns the longest time a successful write took.
func (p *pulse) slowest() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.most
}

func (p *pulse) stop() {
	p.cancel()
	p.done.Wait()
}
