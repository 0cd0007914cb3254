package sink

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/timeseries"
)

// Bounds of the documents on which an update is tried at a time.
const (
	maxTried      = 64
	maxTriedBytes = 1 << 20
	tryTimeout    = 30 * time.Second // of one step
)

// Tried is what an update makes of a meta.
type Tried struct {
	Meta bson.RawValue // Type 0: none
	// Err is why MongoDB does not apply the update to it.
	Err error
}

// Try lets MongoDB apply an update of buckets to metas, where the query of the selection finds them, so that what operators
// do is what its server says. It works on scratch documents, which it deletes again; those of a call that is cut off stay, and
// do no harm. The answers come in the order of the metas, which are as the server made them: not normalised.
func (s *Selection) Try(ctx context.Context, update bson.Raw, metas []bson.RawValue, progress func(done int)) ([]Tried, error) {
	all := make([]Tried, 0, len(metas))
	for len(all) < len(metas) {
		rest, bytes, n := metas[len(all):], 0, 0
		for n < len(rest) && n < maxTried && (n == 0 || bytes+len(rest[n].Value) <= maxTriedBytes) {
			bytes += len(rest[n].Value)
			n++
		}
		tried, err := s.try(ctx, update, rest[:n])
		if err != nil {
			return nil, failure("trying the update on scratch documents", err)
		}
		all = append(all, tried...)
		progress(len(all))
	}
	return all, nil
}

// try is Try for some metas.
func (s *Selection) try(ctx context.Context, update bson.Raw, metas []bson.RawValue) ([]Tried, error) {
	ctx, cancel := context.WithTimeout(ctx, tryTimeout)
	defer cancel()
	run := "probe-" + rand.Text()
	ids := make(bson.A, len(metas))
	index := make(map[string]int, len(metas))
	documents, updates := make([]bson.Raw, len(metas)), make([]Update, len(metas))
	for i, meta := range metas {
		id := fmt.Sprintf("%s-%d", run, i)
		ids[i], index[id] = id, i
		scratch := bson.D{{Key: timeseries.FieldID, Value: id}}
		if meta.Type != 0 {
			scratch = append(scratch, bson.E{Key: timeseries.FieldMeta, Value: meta})
		}
		documents[i] = document(scratch)
		updates[i] = Update{Update: update, Filter: document(bson.D{
			{Key: timeseries.FieldID, Value: id}, {Key: "$and", Value: bson.A{s.query}},
		})}
	}
	every := document(bson.D{{Key: timeseries.FieldID, Value: bson.D{{Key: "$in", Value: ids}}}})
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tryTimeout)
		defer cancel()
		_, _ = s.scratch.Delete(ctx, every)
	}()
	if _, err := executed(s.scratch.Insert(ctx, documents)); err != nil {
		return nil, err
	}
	reply, err := s.scratch.Update(ctx, updates)
	if err == nil {
		err = reply.Unconfirmed
	}
	if err != nil {
		return nil, err
	}
	tried, found := make([]Tried, len(metas)), 0
	err = s.scratch.Find(ctx, Query{Filter: every}, func(d bson.Raw) error {
		id, _ := d.Lookup(timeseries.FieldID).StringValueOK()
		tried[index[id]].Meta = cloned(d.Lookup(timeseries.FieldMeta))
		found++
		return nil
	})
	if err == nil && found != len(metas) {
		err = fmt.Errorf("%d of %d scratch documents are there", found, len(metas))
	}
	for _, e := range reply.Errors {
		tried[e.Index].Err = &CommandError{Code: e.Code, Message: e.Message}
	}
	return tried, err
}
