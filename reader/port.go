package reader

import (
	"context"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// port are the operations that reading needs from a server. Its errors are the driver's. It is safe for concurrent use.
type port interface {
	// definition returns the document that defines the time series. It is nil if there is none.
	definition(ctx context.Context) (bson.Raw, error)
	// rollups returns the document that lists the rollups of the time series. It is nil if there are none.
	rollups(ctx context.Context) (bson.Raw, error)
	// now returns the server's time.
	now(ctx context.Context) (time.Time, error)
	// find queries the collection of buckets.
	find(ctx context.Context, r request) (documents, error)
	// aggregate runs a pipeline on the buckets.
	aggregate(ctx context.Context, pipeline bson.A) (documents, error)
	// explainFind and explainAggregate return the answers of explain, with executionStats, for the same commands. The error is
	// ErrNoExplain if the server has no such command.
	explainFind(ctx context.Context, r request) (bson.Raw, error)
	explainAggregate(ctx context.Context, pipeline bson.A) (bson.Raw, error)
	// skips reports whether $sort and $group with $first take only one key of each series from an index. On a sharded cluster
	// they do not: the router groups, and its shards send it every key.
	skips() bool
	// sources returns the partition documents of the time series.
	sources(ctx context.Context) (documents, error)
}

// documents is a cursor over the answers to a query.
type documents interface {
	// Next fetches a document. False means that there are no more, or that Err is set.
	Next(ctx context.Context) bool
	// Document returns the current document. It is valid until Next.
	Document() bson.Raw
	Err() error
	Close(ctx context.Context) error
}

// request is a query on buckets. A nil field is left out.
type request struct {
	filter     bson.D
	projection bson.D
	sort       bson.D
	hint       bson.D // keys of the index to use, if it exists
	limit      int64  // Zero means all.
	batch      int32  // most documents in an answer of the server. Zero means that the server decides.
}

// each calls use for every document of an answer, and closes the answer at the end.
func each(ctx context.Context, answer documents, err error, use func(bson.Raw) error) error {
	if err != nil {
		return err
	}
	defer answer.Close(context.WithoutCancel(ctx))
	for answer.Next(ctx) {
		if err := use(answer.Document()); err != nil {
			return err
		}
	}
	return answer.Err()
}
