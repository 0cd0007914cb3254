package mongodb

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"waterwheel/internal/claim"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver"
)

// Bounds of one bulk call. The driver makes one command of it as long as servers take as much in one (Database.splits).
//
// The driver copies what a command holds four times, in part into memory that grows with the command and is kept for others only
// until garbage is collected. Sending a byte in commands of 1 MiB takes half of the memory and the processor time that it
// takes in commands of 8 MiB (BenchmarkSend). Smaller ones save little more, and each takes the way to a majority.
const (
	MaxCallBytes  = 1 << 20
	MaxCallWrites = 1000
	WriteOverhead = 64 // bytes of a command around one write, at most
)

// smallWrite is the mean size of writes up to which a bulk call is put together here. For each document of its own bulk calls
// the driver makes an encoder, reads the _id by reflection and copies the document on a buffer of its own, which takes longer
// than all that is done with a small document otherwise. For large ones that is little beside copying, and a command of ours
// is copied once more: a quarter to a half more processor time, whatever Go type the encoder is given, since all it writes goes
// through two buffers of its own.
//
// A driver.Operation that is given our bytes, on connections without a compressor, makes half of the copies and takes 40 % of the
// time. But it needs the client's deployment and sessions, which mongo.Client does not give away: they and the login would have
// to be made here, from packages under x/ that the driver promises nothing of.
const smallWrite = 4 << 10

// isSmall reports whether a bulk call of n writes of these bytes is put together here. The driver sends single writes: among
// them are documents of almost the largest size. It also sends calls that a server takes in several commands only.
func (d *Database) isSmall(n, bytes int) bool {
	return n > 1 && n <= MaxCallWrites && bytes <= n*smallWrite && bytes <= MaxCallBytes && !d.splits.Load()
}

// commands is the memory of commands, which the driver has copied when its call returns.
var commands = sync.Pool{New: func() any { return new([]byte) }}

// maxPooledCommand is the largest memory of a command that is kept.
const maxPooledCommand = MaxCallBytes + MaxCallWrites*WriteOverhead + 1<<10

// bulk sends one command of many writes: name and the collection, and under list what element appends of each. It is what the
// driver's own bulk call would send: not ordered, to the primary, once, with our write concern.
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
	dst, _ = bsoncore.AppendArrayEnd(dst, array) // these fail for lengths only that cannot be here
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

// answerOf takes the answer to a bulk command apart. Only per-document errors leave the others' results in sight.
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

// unconfirmed is the error of a write concern that was not met. Nil means that it was.
func unconfirmed(e *mongo.WriteConcernError) error {
	if e == nil {
		return nil
	}
	return fmt.Errorf("write concern: %w", &CommandError{Code: int32(e.Code), Message: e.Message})
}

// appendUpdate appends an element of the updates of an update command, without its type and key.
func appendUpdate(dst []byte, u Update) []byte {
	start, dst := bsoncore.AppendDocumentStart(dst)
	dst = bsoncore.AppendDocumentElement(dst, "q", bsoncore.Document(u.Filter))
	dst = bsoncore.AppendDocumentElement(dst, "u", bsoncore.Document(u.Update))
	dst, _ = bsoncore.AppendDocumentEnd(dst, start)
	return dst
}

// outOfTime tells the errors of the driver about a command that it did not begin to send, because its time was over. They
// come from x/mongo/driver/operation.go, version 2.9.3, each before the call of roundTrip, which hands over the first byte:
//
//   - Operation.calculateMaxTimeMS, and Operation.Execute right before roundTrip, where less time is left than the way to
//     the server and back takes at least: ErrDeadlineWouldBeExceeded;
//   - Operation.Execute in the same place, where the context is over: the context's error as it is. Whatever goes wrong
//     from roundTrip on is wrapped by Operation.networkError.
//
// They could come after bytes were sent in two ways only. A second attempt: retryWrites and adaptive retries are off, and
// after a renewed login (code 391) the first attempt was refused. Or a second command of one call: see splits.
func outOfTime(err error) bool {
	return errors.Is(err, driver.ErrDeadlineWouldBeExceeded) ||
		err == context.DeadlineExceeded || err == context.Canceled //nolint:errorlint // a wrapped one may come from later
}

// bulkError is portError for a bulk call. What had no time left was not sent, if one call is one command.
func (d *Database) bulkError(err error) error {
	if outOfTime(err) && !d.splits.Load() {
		return &NotSentError{fmt.Errorf("%w: %w", claim.ErrNoTurn, d.reached(err))}
	}
	return d.Translate(err)
}

// commandRoom is how many bytes a command may have beside its writes: session, cluster time, names.
const commandRoom = 1 << 20

// limitsMonitor notes when a server of the database takes less in one command than our calls have: then the driver
// makes several commands of one call, and the time may be over after the first.
func (d *Database) limitsMonitor() *event.ServerMonitor {
	return &event.ServerMonitor{ServerDescriptionChanged: func(e *event.ServerDescriptionChangedEvent) {
		s := &e.NewDescription
		if s.Kind != "Unknown" && (s.MaxBatchCount < MaxCallWrites || s.MaxMessageSize < MaxCallBytes+commandRoom) {
			d.splits.Store(true)
		}
	}}
}
