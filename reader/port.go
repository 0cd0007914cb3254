package reader

import (
	"context"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// port is what reading asks of a server. Its errors are the driver's. Calls may overlap.
type port interface {
	// definition is the document that defines the time series. Empty means that there is none.
	definition(ctx context.Context) (bson.Raw, error)
	// rollups is the document that lists the rollups of the time series. It is empty where there are none.
	rollups(ctx context.Context) (bson.Raw, error)
	// now is the server's time.
	now(ctx context.Context) (time.Time, error)
	// find queries the collection of buckets.
	find(ctx context.Context, r request) (documents, error)
	// aggregate runs a pipeline on the buckets.
	aggregate(ctx context.Context, pipeline bson.A) (documents, error)
	// explainFind and explainAggregate are the answers of explain, with executionStats, to the same. ErrNoExplain: there is no
	// such command.
	explainFind(ctx context.Context, r request) (bson.Raw, error)
	explainAggregate(ctx context.Context, pipeline bson.A) (bson.Raw, error)
	// skips reports whether $sort and $group with $first take one key of each series from an index. A router of a sharded cluster
	// groups by itself: its shards would send it every key.
	skips() bool
	// sources are the partition documents of the time series.
	sources(ctx context.Context) (documents, error)
}

// documents are the answers to a query, one after the other.
type documents interface {
	// Next fetches a document. False means that there is none any more, or Err is set.
	Next(ctx context.Context) bool
	// Document is valid until Next.
	Document() bson.Raw
	Err() error
	Close(ctx context.Context) error
}

// request is a query on buckets. A nil field is left out.
type request struct {
	filter     bson.D
	projection bson.D
	sort       bson.D
	hint       bson.D // keys of the index that serves it, where there is one
	limit      int64  // Zero means all.
}

// each calls use for every document of an answer, which is closed in the end.
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
