package chaos

import (
	"context"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"waterwheel/e2e/check"
)

// look compares the documents a reader sees with the committed offsets, again and again until the context ends. A database that
// does not answer is no fault, because the next look follows.
func (r *run) look(ctx context.Context) {
	for {
		sleep(ctx, r.options.Look)
		if ctx.Err() != nil {
			return
		}
		report, err := check.Shown(ctx, r.source())
		if err != nil {
			if ctx.Err() == nil {
				r.note("no look at what is shown: %v", err)
			}
			continue
		}
		r.mu.Lock()
		r.result.Looks++
		r.mu.Unlock()
		if err := report.Err(); err != nil {
			r.fault("what is shown at this moment: %v", err)
		}
	}
}

// source tells the check where the records and documents of the run are.
func (r *run) source() check.Source {
	return check.Source{
		Kafka: r.kafka, MongoURI: r.options.MongoURI, Database: r.databaseName(), Topic: r.topic,
		Group: r.group(), Fate: r.load.book.Fate,
	}
}

// pulse writes a small document again and again until the context ends, on a connection that nothing disturbs. It measures how long
// the database itself holds a command before it executes it. A server that honours maxTimeMS aborts a command after the write
// timeout. A server that does not, and holds a command for longer than the grace, breaks the assumption of the consumers. A write
// that fails is not counted, so an outage that the run causes is no slow answer.
func (r *run) pulse(ctx context.Context) {
	client, err := mongo.Connect(options.Client().ApplyURI(r.options.MongoURI).SetRetryWrites(false))
	if err != nil {
		r.fault("connecting to measure the database: %v", err)
		return
	}
	defer client.Disconnect(context.WithoutCancel(ctx))
	collection := client.Database(r.databaseName()).Collection("pulse")
	for ; ctx.Err() == nil; sleep(ctx, 100*time.Millisecond) {
		sent := time.Now()
		_, err := collection.UpdateOne(ctx, bson.D{{Key: "_id", Value: 1}}, bson.D{{Key: "$inc", Value: bson.D{{Key: "n", Value: 1}}}},
			options.UpdateOne().SetUpsert(true))
		if took := time.Since(sent); err == nil {
			r.mu.Lock()
			r.result.SlowestAnswer = max(r.result.SlowestAnswer, took)
			r.mu.Unlock()
		}
	}
}

const (
	// pollRollups is the pause between two looks at the watermarks.
	pollRollups = time.Second
	// editedWithin is how long the rows of an edited series may stay wrong after the edit. It may have edited buckets that queries
	// see only after COMPACT_VISIBILITY_DELAY.
	editedWithin = 6 * time.Minute
)

// awaitRollups waits until the rows of rollups have all records, and then until the rows of edited series are right.
func (r *run) awaitRollups(ctx context.Context) {
	for {
		behind, err := check.BehindRollups(ctx, r.source())
		if err == nil && behind == "" {
			break
		}
		if sleep(ctx, pollRollups); ctx.Err() != nil {
			r.fault("the rollups are not complete: %s (%v)", behind, err)
			return
		}
		r.watch()
	}
	for begun := time.Now(); time.Since(begun) < editedWithin && ctx.Err() == nil; sleep(ctx, pollRollups) {
		if _, difference, err := check.Rollups(ctx, r.source()); err == nil && difference == "" {
			return // judgeRollups reports what is still wrong
		}
		r.watch()
	}
}

// judgeRollups compares the rows of rollups with the records, and has the consumer's own command verify them.
func (r *run) judgeRollups(ctx context.Context) error {
	if !r.options.hasRollups() {
		return nil
	}
	rows, difference, err := check.Rollups(ctx, r.source())
	if err != nil {
		return err
	}
	r.result.Rows = rows
	if difference != "" {
		r.fault("a row of rollups differs from the records: %s", difference)
	}
	if code, output, err := r.command(ctx, "rollup", "verify"); err != nil || code != 0 {
		r.fault("rollup verify ended with code %d (%v): %s", code, err, output)
	}
	return nil
}
