package mongodb

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"
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
func (d *Database) Collection(name string) Editable {
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
	return d.send(ctx, models)
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
	return d.send(ctx, models)
}

// Delete implements Editable.
func (d driverCollection) Delete(ctx context.Context, filters []bson.Raw) (Reply, error) {
	models := make([]mongo.WriteModel, len(filters))
	for i, filter := range filters {
		models[i] = &mongo.DeleteOneModel{Filter: filter}
	}
	return d.send(ctx, models)
}

// send sends writes of one kind by the driver's bulk call. Only errors of single documents keep the results of the others.
func (d driverCollection) send(ctx context.Context, models []mongo.WriteModel) (Reply, error) {
	result, err := d.c.BulkWrite(ctx, models, options.BulkWrite().SetOrdered(false))
	var failed mongo.BulkWriteException
	if err != nil && !errors.As(err, &failed) {
		return Reply{}, d.d.bulkError(err)
	}
	reply := Reply{N: int(result.InsertedCount + result.MatchedCount + result.DeletedCount), Unconfirmed: unconfirmed(failed.WriteConcernError)}
	for _, e := range failed.WriteErrors {
		reply.Errors = append(reply.Errors, WriteError{Index: e.Index, Code: int32(e.Code), Message: e.Message})
	}
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
	if !atOnce || !Refuses(err) {
		return cursor, err
	}
	c = d.c
	if again := d.d.answered(ctx, send); again != nil {
		return nil, err
	}
	if d.d.snapshotRefused.Swap(time.Now().Unix()) == 0 { // one warning is enough
		d.d.log.Warn("this MongoDB does not support snapshot reads of several shards: run `waterwheel collection update-meta` only while no consumer runs", "err", err)
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

// Bounds of one bulk call. The driver makes one command of it if servers take that much in one command (Database.splits).
//
// The driver copies a command's contents four times. Some copies go into memory that grows with the command and is kept for other
// commands only until the next garbage collection. In commands of 1 MiB a byte takes half of the memory and processor time that
// it takes in commands of 8 MiB (BenchmarkSend). Smaller commands save little more, and each waits for a majority.
const (
	MaxCallBytes  = 1 << 20
	MaxCallWrites = 1000
	WriteOverhead = 64 // bytes of a command around one write, at most
)

// smallWrite is the mean size of writes up to which this package builds a bulk call itself. For each document the driver makes an
// encoder, reads the _id by reflection and copies the document on its own buffer. For small documents this takes longer than all
// other work. For large ones it is little beside the copying, and the driver copies a command of ours once more. That costs a
// quarter to a half more processor time, whatever Go type the encoder gets, because everything it writes passes two buffers.
//
// A driver.Operation with our bytes, on connections without a compressor, makes half of the copies and takes 40 % of the time.
// But it needs the client's deployment and sessions, which mongo.Client does not expose. This package would have to make them and
// the login from packages under x/, whose API the driver does not promise.
const smallWrite = 4 << 10

// isSmall reports whether this package builds a bulk call of n writes with these bytes itself. The driver sends single writes,
// which may be almost of the largest size. It also sends calls that a server takes only in several commands.
func (d *Database) isSmall(n, bytes int) bool {
	return n > 1 && n <= MaxCallWrites && bytes <= n*smallWrite && bytes <= MaxCallBytes && !d.splits.Load()
}

// commands are buffers of commands. The driver has copied a command when its call returns.
var commands = sync.Pool{New: func() any { return new([]byte) }}

// maxPooledCommand is the capacity of the largest buffer that is kept.
const maxPooledCommand = MaxCallBytes + MaxCallWrites*WriteOverhead + 1<<10

// bulk sends one command with many writes. The command is name with the collection, and its array list has the elements that
// element appends. It equals the driver's own bulk call: not ordered, to the primary, sent once, with our write concern.
func (d driverCollection) bulk(ctx context.Context, name, list string, n int, element func(dst []byte, i int) []byte) (Reply, error) {
	memory := commands.Get().(*[]byte)
	start, dst := bsoncore.AppendDocumentStart((*memory)[:0])
	dst = bsoncore.AppendStringElement(dst, name, d.c.Name())
	array, dst := bsoncore.AppendArrayElementStart(dst, list)
	for i := range n {
		dst = append(dst, byte(bson.TypeEmbeddedDocument))
		dst = strconv.AppendInt(dst, int64(i), 10)
		dst = element(append(dst, 0), i)
	}
	dst, _ = bsoncore.AppendArrayEnd(dst, array) // fails only for lengths that cannot occur here
	dst = bsoncore.AppendBooleanElement(dst, "ordered", false)
	concern, dst := bsoncore.AppendDocumentElementStart(dst, "writeConcern")
	dst = bsoncore.AppendStringElement(dst, "w", "majority")
	dst = bsoncore.AppendBooleanElement(dst, "j", true)
	dst, _ = bsoncore.AppendDocumentEnd(dst, concern)
	dst, _ = bsoncore.AppendDocumentEnd(dst, start)

	answer, err := d.c.Database().RunCommand(ctx, bson.Raw(dst)).Raw()
	if *memory = dst; cap(dst) <= maxPooledCommand {
		commands.Put(memory)
	}
	return d.d.answerOf(answer, err)
}

// answerOf decodes the answer to a bulk command. Only errors of single documents keep the results of the others.
func (d *Database) answerOf(answer bson.Raw, err error) (Reply, error) {
	failed := mongo.WriteException{Raw: answer}
	if err != nil && !errors.As(err, &failed) {
		return Reply{}, d.bulkError(err)
	}
	n, ok := failed.Raw.Lookup("n").AsInt64OK()
	if !ok {
		return Reply{}, fmt.Errorf("the answer to a bulk command has no number of writes: %v", failed.Raw)
	}
	reply := Reply{N: int(n)}
	for _, e := range failed.WriteErrors {
		reply.Errors = append(reply.Errors, WriteError{Index: e.Index, Code: int32(e.Code), Message: e.Message})
	}
	reply.Unconfirmed = unconfirmed(failed.WriteConcernError)
	return reply, nil
}

// unconfirmed returns the error of a write concern that was not met. Nil means that it was met.
func unconfirmed(e *mongo.WriteConcernError) error {
	if e == nil {
		return nil
	}
	return fmt.Errorf("write concern: %w", &CommandError{Code: int32(e.Code), Message: e.Message})
}

// appendUpdate appends an element of an update command's updates, without its type and key.
func appendUpdate(dst []byte, u Update) []byte {
	start, dst := bsoncore.AppendDocumentStart(dst)
	dst = bsoncore.AppendDocumentElement(dst, "q", bsoncore.Document(u.Filter))
	dst = bsoncore.AppendDocumentElement(dst, "u", bsoncore.Document(u.Update))
	dst, _ = bsoncore.AppendDocumentEnd(dst, start)
	return dst
}

// outOfTime reports whether the driver did not begin to send a command because its time was over. These errors come from
// x/mongo/driver/operation.go, version 2.9.3. Each is returned before the call of roundTrip, which hands over the first byte:
//
//   - Operation.calculateMaxTimeMS, and Operation.Execute right before roundTrip, return ErrDeadlineWouldBeExceeded. Less time is
//     left than the least round trip to the server takes.
//   - Operation.Execute returns the context's error unchanged in the same place when the context is over. From roundTrip on
//     Operation.networkError wraps every error.
//
// Only two cases could return them after bytes were sent. The first is a second attempt. But retryWrites and adaptive retries are
// off, and after a renewed login (code 391) the server has refused the first attempt. The second is a second command of one call,
// see splits.
func outOfTime(err error) bool {
	return errors.Is(err, driver.ErrDeadlineWouldBeExceeded) ||
		err == context.DeadlineExceeded || err == context.Canceled //nolint:errorlint // a wrapped one may come from later
}

// bulkError is Translate for a bulk call. If one call is one command, a call without time left was not sent.
func (d *Database) bulkError(err error) error {
	if outOfTime(err) && !d.splits.Load() {
		return &NotSentError{fmt.Errorf("%w: %w", claim.ErrNoTurn, d.reached(err))}
	}
	return d.Translate(err)
}

// commandRoom is how many bytes a command may have besides its writes, for session, cluster time and names.
const commandRoom = 1 << 20

// limitsMonitor notes when a server takes less in one command than our calls have. The driver then makes several commands of one
// call, and the time may be over after the first.
func (d *Database) limitsMonitor() *event.ServerMonitor {
	return &event.ServerMonitor{ServerDescriptionChanged: func(e *event.ServerDescriptionChangedEvent) {
		s := &e.NewDescription
		if s.Kind != "Unknown" && (s.MaxBatchCount < MaxCallWrites || s.MaxMessageSize < MaxCallBytes+commandRoom) {
			d.splits.Store(true)
		}
	}}
}
