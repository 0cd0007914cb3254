package mongodb

import (
	"cmp"
	"context"
	"errors"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver/topology"

	"waterwheel/internal/claim"
	"waterwheel/internal/timeseries"
)

// driverCollection is a Collection of a real server.
type driverCollection struct {
	c *mongo.Collection
	d *Database
}

// Collection is a collection of the database.
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

// replyOf takes a bulk call's result apart. Only per-document errors leave the others' results in sight.
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

// Find implements Collection. It may take as long as the server works on it, unless Options.AnswerTimeout is set: that the server is
// gone is found out by the driver's monitor and by TCP, which end the call.
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
	var cursor *mongo.Cursor
	err := d.d.answered(ctx, func(ctx context.Context) (err error) {
		cursor, err = d.c.Find(ctx, q.Filter, o)
		return err
	})
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), d.d.o.WriteTimeout)
		defer cancel()
		_ = cursor.Close(ctx) // a cursor that stays open is closed by the server
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

// portError translates the driver's errors into those of a Collection. What it says to have not been sent is a closed
// list: anything that is not certain stays as it is, unknown.
func portError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, claim.ErrLapsed): // by the connection, before the command's last byte
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

// neverSent tells errors from before a connection was there to send on: no server to choose, the pool's queue or the pool
// closed, a refused or failed connection. They cannot come from a second attempt, since the driver makes one only.
func neverSent(err error) bool {
	var (
		dialing   *dialError
		selection topology.ServerSelectionError
		queue     topology.WaitQueueTimeoutError
		pool      driver.RetryablePoolError
	)
	return errors.As(err, &dialing) || errors.As(err, &selection) || errors.As(err, &queue) || errors.As(err, &pool)
}

// FenceShards orders what is read next after every write executed before on any shard that has a part of a collection. It is an update
// that finds no document: without the shard key mongos sends it to every shard. A shard acknowledges it when a majority has all that
// the shard wrote before, and its time is part of the session from then on. A consumer has the right to update, not always the right to
// delete.
func (d *Database) FenceShards(ctx context.Context, collection string) error {
	_, err := d.db.Collection(collection).UpdateMany(ctx, bson.D{{Key: timeseries.FieldID, Value: "fence"}}, bson.D{{Key: "$unset", Value: bson.D{{Key: "fence", Value: ""}}}})
	return d.Translate(err)
}

// MoveKeys applies updates of a collection that change shard keys, each in a command of its own, and as a retryable write: mongos refuses
// others. A document that belongs to another shard then is moved by mongos in a transaction.
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
			// A session of the server may have been used before: the number of a write must be larger than all before it.
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

// driverSession is a causally consistent Session of a real server.
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
