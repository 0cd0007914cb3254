package collection

import (
	"context"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/claim"
	"waterwheel/internal/mongodb"
)

// An _id is unique only within a shard. A consumer sends an insert without an answer again. If the first sending is executed late,
// the second one has stored the bucket already, and MongoDB refuses the first one. But it does not refuse it if the bucket lies on
// another shard by then. So an edit that changes shard keys waits before it moves a bucket that it has read.

const (
	// maxAwaited and maxAwaitedBytes bound the buckets that are read before one wait.
	maxAwaited      = 50_000
	maxAwaitedBytes = 64 << 20
)

// awaitInserts implements SelectionOptions.AwaitInserts. It waits as long as another owner of the partitions would wait.
func (t TimeSeries) awaitInserts(ctx context.Context) error {
	var claims []claim.Document
	err := t.Ports().Partitions.Find(ctx, mongodb.Query{Filter: mongodb.Document(bson.D{})}, func(d bson.Raw) error {
		claims = append(claims, claim.Decode(d))
		return nil
	})
	if err != nil {
		return mongodb.Failure("reading how long consumers may still write", err)
	}
	longest := claim.Pending(claim.Grace(t.db.WriteTimeout()), claims)
	t.db.Log().Info("waiting until MongoDB can no longer execute pending inserts of consumers", "collection", t.name, "for", longest)
	return sleep(ctx, longest)
}

// awaits reports whether the edit waits before it edits the buckets that it has read.
func (e *editing) awaits() bool { return e.s.AwaitInserts != nil && e.kind == NotedChanged }

// isFull reports whether the open buckets must be edited before more are read.
func (e *editing) isFull() bool {
	if e.awaits() {
		return len(e.open) >= maxAwaited || e.bytes > maxAwaitedBytes
	}
	return len(e.open) >= e.most || e.bytes > maxEditedBytes
}

// flushAll edits the open buckets, after a wait if one is needed, in batches of the present size.
func (e *editing) flushAll(ctx context.Context) error {
	if !e.awaits() || len(e.open) == 0 {
		return e.flush(ctx)
	}
	if err := e.s.AwaitInserts(ctx); err != nil {
		return err
	}
	for all := e.open; len(all) > 0; {
		n := min(e.most, len(all))
		e.open, all = all[:n:n], all[n:]
		if err := e.flush(ctx); err != nil {
			return err
		}
	}
	return nil
}
