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
