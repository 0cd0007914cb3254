package sink

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/bucketer"
	"waterwheel/internal/mongodb"
	"waterwheel/internal/timeseries"
)

// classify returns the result of each of the n writes of one command, for inserts and updates alike. It goes by closed lists: any
// answer that is on none of them is Unknown.
func classify(n int, reply mongodb.Reply, err error) []bucketer.Sent {
	if err != nil {
		return slices.Repeat([]bucketer.Sent{classifyError(err)}, n)
	}
	sent := make([]bucketer.Sent, n)
	failed := map[int]bucketer.Sent{}
	for _, e := range reply.Errors {
		if e.Index >= 0 && e.Index < n {
			failed[e.Index] = classifyCode(e.Code, e.Message)
		}
	}
	doubt := reply.Unconfirmed
	if executed := n - len(failed); doubt == nil && reply.N != executed {
		doubt = fmt.Errorf("MongoDB applied %d of %d writes, and reported no error for the others", reply.N, executed)
	}
	for i := range sent {
		if s, ok := failed[i]; ok {
			sent[i] = s
		} else if doubt != nil {
			sent[i] = bucketer.Sent{Result: bucketer.Unknown, Err: doubt}
		}
	}
	return sent
}

// withoutShardKey makes a refusal of a failed insert whose meta is an array. A shard key takes no array, so no shard ever
// accepts the document. MongoDB gives the same code to writes into a collection that is sharded by something else, which is not
// the document's fault.
func withoutShardKey(w *bucketer.Write, s bucketer.Sent) bucketer.Sent {
	if s.Code != mongodb.CodeShardKeyNotFound || w.Kind != bucketer.Insert || w.Meta.Type != bson.TypeArray {
		return s
	}
	return bucketer.Sent{
		Result: bucketer.Refused, Code: s.Code,
		Message: "its meta is an array, and the collection is sharded by the meta: a shard key cannot contain an array: " + s.Message,
	}
}

// classifyError returns the result of every write of a command that failed as a whole.
func classifyError(err error) bucketer.Sent {
	var notSent *mongodb.NotSentError
	var command *mongodb.CommandError
	switch {
	case errors.As(err, &notSent), errors.As(err, &command) && mongodb.ClassOf(command.Code) == mongodb.NotPrimary:
		return bucketer.Sent{Result: bucketer.NotExecuted, Err: err}
	case command != nil:
		s := classifyCode(command.Code, command.Message)
		// The cause of a refused command may be something else than its document.
		if s.Result == bucketer.Refused && command.Code != mongodb.CodeObjectTooLarge {
			s.Err = err
		}
		return s
	default:
		return bucketer.Sent{Result: bucketer.Unknown, Err: err}
	}
}

// classifyCode returns the result of one write by its answer.
func classifyCode(code int32, message string) bucketer.Sent {
	s := bucketer.Sent{Result: bucketer.Refused, Code: code, Message: message, TooLarge: mongodb.ClassOf(code) == mongodb.TooLarge}
	if !mongodb.ClassOf(code).BlamesDocument() {
		s.Result, s.Err = bucketer.Unknown, &mongodb.CommandError{Code: code, Message: message}
	}
	return s
}

// refusedWhole reports whether MongoDB refused a whole command for the content of some of its documents. The answer does not
// tell which.
func refusedWhole(err error) bool {
	var command *mongodb.CommandError
	return errors.As(err, &command) && mongodb.ClassOf(command.Code).BlamesDocument()
}

// maxIDs bounds the buckets that one query asks for by _id.
const maxIDs = 1000

// Resolve finds out the outcomes of unknown writes: it fences, and then reads their buckets back. The answer is of the moment,
// because a NotApplied write may still be applied until its write grace period has passed. ErrOtherOwner means that the claim is
// no longer ours.
func (p *Partition) Resolve(ctx context.Context, writes []*bucketer.Write) ([]bucketer.Result, error) {
	if err := p.fence(ctx); err != nil {
		return nil, err
	}
	found := make([]bucketer.Result, 0, len(writes))
	for chunk := range slices.Chunk(writes, maxIDs) {
		buckets, err := p.readBack(ctx, chunk)
		if err != nil {
			return nil, err
		}
		for _, w := range chunk {
			found = append(found, judge(w, buckets[w.ID]))
		}
	}
	if slices.Contains(found, bucketer.Applied) || slices.Contains(found, bucketer.AppliedForget) {
		if err := p.confirm(ctx); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// confirm makes sure that the buckets just read are durable. If the server cannot order reads after durable writes, a later
// acknowledged write proves it.
func (p *Partition) confirm(ctx context.Context) error {
	if p.store.Ports.Session != nil {
		return nil
	}
	return p.fence(ctx)
}

// stored is the trace that writes leave in a bucket.
type stored struct {
	meta   bson.RawValue // Type 0 means none.
	count  int64
	closed bool
	last   []byte // newest element of offsets. Nil means that none is readable.
	min    bson.RawValue
}

// readBack reads the buckets of the writes.
func (p *Partition) readBack(ctx context.Context, writes []*bucketer.Write) (map[bson.ObjectID]*stored, error) {
	ids := make(bson.A, len(writes))
	for i, w := range writes {
		ids[i] = w.ID
	}
	minimum := timeseries.MinPath(p.store.Options.TimeField)
	query := mongodb.Query{
		Filter: mongodb.Document(bson.D{{Key: timeseries.FieldID, Value: bson.D{{Key: "$in", Value: ids}}}}),
		Projection: mongodb.Document(bson.D{
			{Key: timeseries.FieldMeta, Value: 1},
			{Key: timeseries.PathCount, Value: 1},
			{Key: timeseries.PathClosed, Value: 1},
			{Key: minimum, Value: 1},
			{Key: timeseries.PathOffsets, Value: 1},
		}),
		AtOnce: true,
	}
	buckets := make(map[bson.ObjectID]*stored, len(writes))
	err := p.find(ctx, p.store.Ports.Buckets, query, func(d bson.Raw) error {
		if id, ok := d.Lookup(timeseries.FieldID).ObjectIDOK(); ok {
			buckets[id] = p.parseStored(d)
		}
		return nil
	})
	return buckets, mongodb.Failure("reading writes back", err)
}

// parseStored copies the fields that it keeps of a bucket.
func (p *Partition) parseStored(d bson.Raw) *stored {
	s := &stored{count: -1}
	s.meta = timeseries.Clone(d.Lookup(timeseries.FieldMeta))
	s.min = timeseries.Clone(d.Lookup(timeseries.FieldControl, timeseries.FieldMin, p.store.Options.TimeField))
	if count, ok := d.Lookup(timeseries.FieldControl, timeseries.FieldCount).AsInt64OK(); ok {
		s.count = count
	}
	s.closed, _ = d.Lookup(timeseries.FieldControl, timeseries.FieldClosed).BooleanOK()
	array, ok := d.Lookup(timeseries.FieldControl, timeseries.FieldSource, timeseries.FieldOffsets).ArrayOK()
	if !ok {
		return s
	}
	if elements, err := array.Values(); err == nil && len(elements) > 0 {
		if _, data, ok := elements[len(elements)-1].BinaryOK(); ok {
			s.last = bytes.Clone(data)
		}
	}
	return s
}

// judge compares a bucket with the result of a write. A nil bucket means that there is none.
func judge(w *bucketer.Write, s *stored) bucketer.Result {
	if w.Added == 0 {
		return judgeClose(w, s)
	}
	if s == nil {
		if w.Kind == bucketer.Insert {
			return bucketer.NotApplied
		}
		return bucketer.Conflicted // the bucket was deleted
	}
	sameMeta := s.meta.Type == w.Meta.Type && bytes.Equal(s.meta.Value, w.Meta.Value)
	if s.count == int64(w.Count) && s.last != nil && bytes.Equal(s.last, w.Offsets) {
		if sameMeta && s.closed == w.Closes {
			return bucketer.Applied
		}
		return bucketer.AppliedForget
	}
	minTime, ok := s.min.DateTimeOK()
	if w.Kind == bucketer.Update && sameMeta && !s.closed && s.count == int64(w.Count-w.Added) && ok && minTime == w.MinTime {
		return bucketer.NotApplied // the update's own filter still finds the bucket (E5)
	}
	return bucketer.Conflicted
}

// judgeClose judges a write that only closes its bucket. A bucket that is closed, gone or changed needs no close.
func judgeClose(w *bucketer.Write, s *stored) bucketer.Result {
	switch {
	case s == nil || s.count != int64(w.Count):
		return bucketer.AppliedForget
	case s.closed:
		return bucketer.Applied
	default:
		return bucketer.NotApplied
	}
}

// Positions returns the positions of a write that any bucket of the partition stores, in the order of the write. It fences, and
// then asks the source index. ErrOtherOwner means that the claim is no longer ours.
func (p *Partition) Positions(ctx context.Context, w *bucketer.Write) ([]timeseries.Position, error) {
	wanted, err := timeseries.DecodePositions(nil, w.Offsets)
	if err != nil {
		panic(fmt.Sprintf("E1: a write of our own lists no positions: %v", err))
	}
	if err := p.fence(ctx); err != nil {
		return nil, err
	}
	if len(wanted) == 0 {
		return nil, nil
	}
	listed := make(map[timeseries.Position]bool)
	var decoded []timeseries.Position
	first := slices.MinFunc(wanted, timeseries.Position.Compare)
	last := slices.MaxFunc(wanted, timeseries.Position.Compare)
	err = p.eachListed(ctx, first.Offset, last.Offset, func(element []byte) (int, error) {
		var err error
		decoded, err = timeseries.DecodePositions(decoded[:0], element)
		for _, position := range decoded {
			listed[position] = true
		}
		return len(decoded), err
	})
	if err == nil {
		err = p.confirm(ctx)
	}
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(wanted, func(position timeseries.Position) bool { return !listed[position] }), nil
}
