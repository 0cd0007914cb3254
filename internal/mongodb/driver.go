package mongodb

import (
	"cmp"
	"context"
	"errors"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver/topology"

	"waterwheel/internal/claim"
	"waterwheel/internal/timeseries"
)

// driverCollection is a Collection on a real server.
type driverCollection struct {
	c *mongo.Collection
	d *Database
}

// Collection returns a collection of the database.
func (d *Database) Collection(name string) Editable { return d.collection(name) }

func (d *Database) collection(name string) driverCollection {
	return driverCollection{d.db.Collection(name), d}
}

// Insert implements Collection.
func (d driverCollection) Insert(ctx context.Context, documents []bson.Raw) (Reply, error) {
	bytes := 0
	for _, document := range documents {
		bytes += len(document)
	}
	if d.d.isSmall(len(documents), bytes) {
		return d.bulk(ctx, "insert", "documents", len(documents), func(dst []byte, i int) []byte { return append(dst, documents[i]...) })
	}
	models := make([]mongo.WriteModel, len(documents))
	for i, document := range documents {
		models[i] = &mongo.InsertOneModel{Document: document}
	}
	result, err := d.c.BulkWrite(ctx, models, options.BulkWrite().SetOrdered(false))
	return d.d.replyOf(int(result.InsertedCount), err)
}

// Update implements Collection.
func (d driverCollection) Update(ctx context.Context, updates []Update) (Reply, error) {
	bytes := 0
	for _, u := range updates {
		bytes += len(u.Filter) + len(u.Update)
	}
	if d.d.isSmall(len(updates), bytes) {
		return d.bulk(ctx, "update", "updates", len(updates), func(dst []byte, i int) []byte { return appendUpdate(dst, updates[i]) })
	}
	models := make([]mongo.WriteModel, len(updates))
	for i, u := range updates {
		models[i] = &mongo.UpdateOneModel{Filter: u.Filter, Update: u.Update}
	}
	result, err := d.c.BulkWrite(ctx, models, options.BulkWrite().SetOrdered(false))
	return d.d.replyOf(int(result.MatchedCount), err)
}

// Delete implements Editable.
func (d driverCollection) Delete(ctx context.Context, filters []bson.Raw) (Reply, error) {
	models := make([]mongo.WriteModel, len(filters))
	for i, filter := range filters {
		models[i] = &mongo.DeleteOneModel{Filter: filter}
	}
	result, err := d.c.BulkWrite(ctx, models, options.BulkWrite().SetOrdered(false))
	return d.d.replyOf(int(result.DeletedCount), err)
}

// replyOf decodes a bulk call's result. Only errors of single documents keep the results of the others.
func (d *Database) replyOf(n int, err error) (Reply, error) {
	if err == nil {
		return Reply{N: n}, nil
	}
	var bulk mongo.BulkWriteException
	if !errors.As(err, &bulk) {
		return Reply{}, d.bulkError(err)
	}
	reply := Reply{N: n, Errors: make([]WriteError, len(bulk.WriteErrors))}
	for i, e := range bulk.WriteErrors {
		reply.Errors[i] = WriteError{Index: e.Index, Code: int32(e.Code), Message: e.Message}
	}
	reply.Unconfirmed = unconfirmed(bulk.WriteConcernError)
	return reply, nil
}

// Find implements Collection. It may take as long as the server works on it, unless Options.AnswerTimeout is set. The driver's
// monitor and TCP notice when the server is gone, and end the call.
func (d driverCollection) Find(ctx context.Context, q Query, each func(bson.Raw) error) error {
	o := options.Find().SetLimit(q.Limit)
	if q.Projection != nil {
		o.SetProjection(q.Projection)
	}
	if q.Hint != nil {
		o.SetHint(q.Hint)
	}
	if q.Sort != nil {
		o.SetSort(q.Sort)
	}
	if q.Batch > 0 {
		o.SetBatchSize(q.Batch)
	}
	cursor, err := d.find(ctx, q, o)
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), d.d.o.WriteTimeout)
		defer cancel()
		_ = cursor.Close(ctx) // the server closes a cursor that stays open
	}()
	for more := true; ; {
		if cursor.RemainingBatchLength() > 0 {
			more = cursor.Next(ctx)
		} else {
			err = d.d.answered(ctx, func(ctx context.Context) error {
				more = cursor.Next(ctx)
				return cursor.Err()
			})
		}
		if err != nil || !more {
			return err
		}
		if err := each(cursor.Current); err != nil {
			return err
		}
	}
}

// askAgainAfter is how long queries do not ask a router to read all shards at once after it has refused that. Meanwhile an operator
// may have updated the cluster.
const askAgainAfter = 10 * time.Minute

func (d *Database) readsAtOnce(now time.Time) bool {
	return d.server.Sharded && now.Sub(time.Unix(d.snapshotRefused.Load(), 0)) > askAgainAfter
}

// find sends a query. If a router refuses to read all shards at once, find sends the query once more without that.
func (d driverCollection) find(ctx context.Context, q Query, o *options.FindOptionsBuilder) (cursor *mongo.Cursor, err error) {
	c, atOnce := d.c, q.AtOnce && d.d.readsAtOnce(time.Now())
	if atOnce {
		c = d.d.db.Collection(d.c.Name(), options.Collection().SetReadConcern(readconcern.Snapshot()))
	}
	send := func(ctx context.Context) (err error) {
		cursor, err = c.Find(ctx, q.Filter, o)
		return err
	}
	err = d.d.answered(ctx, send)
	if refusal, ok := errors.AsType[*CommandError](err); !ok || !atOnce || Passes(refusal.Code) {
		return cursor, err
	}
	c = d.c
	if again := d.d.answered(ctx, send); again != nil {
		return nil, err
	}
	if d.d.snapshotRefused.Swap(time.Now().Unix()) == 0 { // one warning is enough
		d.d.log.Warn("this MongoDB cannot read all shards at one moment: run `waterwheel collection update-meta` only while no consumer runs", "err", err)
	}
	return cursor, nil
}

// portError translates the driver's errors into those of a Collection. A closed list names the errors after which nothing was
// sent. All other errors leave the outcome unknown.
func portError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, claim.ErrLapsed): // from the connection, before the command's last byte
		return &NotSentError{claim.ErrLapsed}
	case neverSent(err):
		return &NotSentError{err}
	case errors.Is(err, driver.ErrDocumentTooLarge):
		return &CommandError{Code: CodeObjectTooLarge, Message: err.Error()}
	}
	c := mongo.CommandError{}
	switch {
	case !errors.As(err, &c) || c.Code == 0:
		return err
	case c.Code == codeUnauthorized:
		return &CommandError{Code: c.Code, Message: missingRight(c.Message)}
	}
	return &CommandError{Code: c.Code, Message: c.Message}
}

// neverSent reports whether an error came before there was a connection to send on. No server was chosen, the pool is closed or
// its queue timed out, or a connection was refused or failed. The error cannot come from a second attempt, because the driver
// makes only one.
func neverSent(err error) bool {
	var (
		dialing   *dialError
		selection topology.ServerSelectionError
		queue     topology.WaitQueueTimeoutError
		pool      driver.RetryablePoolError
	)
	return errors.As(err, &dialing) || errors.As(err, &selection) || errors.As(err, &queue) || errors.As(err, &pool)
}

// FenceShards orders later reads after every earlier write, on all shards with a part of a collection. It is an update that finds
// no document. Because it lacks the shard key, mongos sends it to every shard that it knows. A shard acknowledges it when a
// majority has everything that the shard wrote before. From then on the session includes the time of the update. It is an update
// because a consumer always has the right to update, but not always to delete.
//
// A query comes before the update. Shards refuse a query of a router that does not know where the chunks are now, and the router
// then learns of new shards. They do not refuse such an update.
func (d *Database) FenceShards(ctx context.Context, collection string) error {
	c, none := d.db.Collection(collection, options.Collection().SetReadConcern(readconcern.Local())), bson.D{{Key: timeseries.FieldID, Value: "fence"}}
	if err := c.FindOne(ctx, none).Err(); err != nil && !errors.Is(err, mongo.ErrNoDocuments) {
		return d.Translate(err)
	}
	_, err := c.UpdateMany(ctx, none, bson.D{{Key: "$unset", Value: bson.D{{Key: "fence", Value: ""}}}})
	return d.Translate(err)
}

// MoveKeys applies updates that change shard keys. Each is a command of its own and a retryable write, because mongos refuses
// others. If a document then belongs to another shard, mongos moves it in a transaction.
func (d *Database) MoveKeys(ctx context.Context, collection string, updates []Update) (reply Reply, err error) {
	session, err := d.client.StartSession(options.Session().SetCausalConsistency(false))
	if err != nil {
		return Reply{}, &NotSentError{err}
	}
	defer session.EndSession(context.WithoutCancel(ctx))
	ctx = mongo.NewSessionContext(ctx, session)
	for i, u := range updates {
		answer, err := d.db.RunCommand(ctx, bson.D{
			{Key: "update", Value: collection},
			{Key: "updates", Value: bson.A{bson.Raw(appendUpdate(nil, u))}},
			{Key: "writeConcern", Value: bson.D{{Key: "w", Value: "majority"}, {Key: "j", Value: true}}},
			// The session of the server may have been used before. A write's number must be larger than all earlier ones.
			{Key: "txnNumber", Value: d.moves.Add(1)},
		}).Raw()
		one, err := d.answerOf(answer, err)
		if err != nil {
			return Reply{}, err
		}
		reply.N += one.N
		for _, e := range one.Errors {
			e.Index = i
			reply.Errors = append(reply.Errors, e)
		}
		reply.Unconfirmed = cmp.Or(reply.Unconfirmed, one.Unconfirmed)
	}
	return reply, nil
}

// driverSession is a causally consistent Session on a real server.
type driverSession struct{ s *mongo.Session }

// Context implements Session.
func (d driverSession) Context(parent context.Context) context.Context {
	return mongo.NewSessionContext(parent, d.s)
}

// Session begins a causally consistent session.
func (d *Database) Session() (Session, error) {
	session, err := d.client.StartSession(options.Session().SetCausalConsistency(true))
	if err != nil {
		return nil, err
	}
	return driverSession{session}, nil
}

// End implements Session.
func (d driverSession) End() { d.s.EndSession(context.Background()) }
