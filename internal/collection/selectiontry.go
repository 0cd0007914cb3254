package collection

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/mongodb"
	"waterwheel/internal/timeseries"
)

// Bounds of the scratch documents of one step.
const (
	maxTried      = 64
	maxTriedBytes = 1 << 20
	tryTimeout    = 30 * time.Second // of one step
)

// Tried is the result of an update on a meta.
type Tried struct {
	Meta bson.RawValue // Type 0 means none.
	// Err is why MongoDB does not apply the update to this meta.
	Err error
}

// Try lets MongoDB apply an update of buckets to metas if the query of the selection finds them, so that the server defines what
// operators do. It works on scratch documents and deletes them again. Documents of a call that is cut off stay, and do no harm.
// The results are in the order of the metas. Their metas are as the server made them, not normalised.
func (s *Selection) Try(ctx context.Context, update bson.Raw, metas []bson.RawValue, progress func(done int)) ([]Tried, error) {
	all := make([]Tried, 0, len(metas))
	for len(all) < len(metas) {
		rest := metas[len(all):]
		n := chunkOf(rest, maxTried)
		tried, err := s.try(ctx, update, rest[:n])
		if err != nil {
			return nil, mongodb.Failure("trying the update on test documents", err)
		}
		all = append(all, tried...)
		progress(len(all))
	}
	return all, nil
}

// chunkOf returns how many of the metas go into scratch documents at a time, at most most.
func chunkOf(metas []bson.RawValue, most int) int {
	bytes, n := 0, 0
	for n < len(metas) && n < most && (n == 0 || bytes+len(metas[n].Value) <= maxTriedBytes) {
		bytes += len(metas[n].Value)
		n++
	}
	return n
}

// try is Try for some metas.
func (s *Selection) try(ctx context.Context, update bson.Raw, metas []bson.RawValue) ([]Tried, error) {
	tried := make([]Tried, len(metas))
	err := s.onScratch(ctx, metas, func(ctx context.Context, scratch *scratchMetas) error {
		updates := make([]mongodb.Update, len(metas))
		for i := range metas {
			updates[i] = mongodb.Update{Update: update, Filter: mongodb.Document(bson.D{
				{Key: timeseries.FieldID, Value: scratch.ids[i]}, {Key: "$and", Value: bson.A{s.Query}},
			})}
		}
		reply, err := s.options.Update(ctx, updates)
		if err == nil {
			err = reply.Unconfirmed
		}
		if err != nil {
			return err
		}
		found := 0
		err = s.options.Find(ctx, mongodb.Query{Filter: mongodb.Document(bson.D{scratch.every()})}, func(d bson.Raw) error {
			if i, ok := scratch.index(d); ok {
				tried[i].Meta = timeseries.Clone(d.Lookup(timeseries.FieldMeta))
				found++
			}
			return nil
		})
		if err == nil && found != len(metas) {
			err = fmt.Errorf("only %d of %d test documents were found", found, len(metas))
		}
		for _, e := range reply.Errors {
			tried[e.Index].Err = &mongodb.CommandError{Code: e.Code, Message: e.Message}
		}
		return err
	})
	return tried, err
}

// scratchMetas are scratch documents with metas in the field where buckets have theirs.
type scratchMetas struct {
	ids bson.A
	at  map[string]int // by _id
}

// index returns the index of the meta that a document had.
func (s *scratchMetas) index(d bson.Raw) (int, bool) {
	id, _ := d.Lookup(timeseries.FieldID).StringValueOK()
	i, ok := s.at[id]
	return i, ok
}

// every returns the condition that finds all of them.
func (s *scratchMetas) every() bson.E {
	return bson.E{Key: timeseries.FieldID, Value: bson.D{{Key: "$in", Value: s.ids}}}
}

// onScratch makes scratch documents with metas, and deletes them after use.
func (s *Selection) onScratch(
	ctx context.Context, metas []bson.RawValue, use func(ctx context.Context, scratch *scratchMetas) error,
) error {
	ctx, cancel := context.WithTimeout(ctx, tryTimeout)
	defer cancel()
	run := "probe-" + rand.Text()
	scratch := scratchMetas{ids: make(bson.A, len(metas)), at: make(map[string]int, len(metas))}
	documents := make([]bson.Raw, len(metas))
	for i, meta := range metas {
		id := fmt.Sprintf("%s-%d", run, i)
		scratch.ids[i], scratch.at[id] = id, i
		d := bson.D{{Key: timeseries.FieldID, Value: id}}
		if meta.Type != 0 {
			d = append(d, bson.E{Key: timeseries.FieldMeta, Value: meta})
		}
		documents[i] = mongodb.Document(d)
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tryTimeout)
		defer cancel()
		filters := make([]bson.Raw, len(scratch.ids))
		for i, id := range scratch.ids {
			filters[i] = mongodb.WithID(id)
		}
		_, _ = s.options.Delete(ctx, filters)
	}()
	if _, err := mongodb.Executed(s.options.Insert(ctx, documents)); err != nil {
		return err
	}
	return use(ctx, &scratch)
}
