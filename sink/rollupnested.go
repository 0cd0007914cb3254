package sink

import (
	"context"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/mongodb"
	"waterwheel/internal/rollup"
	"waterwheel/internal/timeseries"
)

// NestedState is what must be known of a stored nested document before it is replaced.
type NestedState struct {
	Revision int64
	Cut      bool
}

// NestedStates are the states of the documents with some _ids. A missing document has none.
func (r *Rollups) NestedStates(ctx context.Context, c mongodb.Collection, ids []bson.ObjectID) (map[bson.ObjectID]NestedState, error) {
	states := map[bson.ObjectID]NestedState{}
	q := mongodb.Query{
		Filter:     mongodb.Document(bson.D{{Key: timeseries.FieldID, Value: bson.D{{Key: "$in", Value: ids}}}}),
		Projection: mongodb.Document(bson.D{{Key: rollup.FieldRevision, Value: 1}, {Key: rollup.FieldCut, Value: 1}}),
	}
	err := r.find(ctx, "reading nested documents", c, q, func(d bson.Raw) error {
		id, _ := d.Lookup(timeseries.FieldID).ObjectIDOK()
		var s NestedState
		s.Revision, _ = d.Lookup(rollup.FieldRevision).AsInt64OK()
		s.Cut, _ = d.Lookup(rollup.FieldCut).BooleanOK()
		states[id] = s
		return nil
	})
	return states, err
}

// PutNested stores a nested document: revision 1 is inserted, and any other replaces the document of the revision before, with all of its
// fields. False means that another writer was quicker.
func (r *Rollups) PutNested(ctx context.Context, c mongodb.Collection, id bson.ObjectID, revision int64, nested bson.Raw) (bool, error) {
	done, err := mongodb.Changed(r.write(ctx, func(ctx context.Context) (mongodb.Reply, error) {
		if revision == 1 {
			return c.Insert(ctx, []bson.Raw{nested})
		}
		var fields bson.D
		elements, err := nested.Elements()
		if err != nil {
			return mongodb.Reply{}, &mongodb.NotSentError{Err: err}
		}
		for _, e := range elements {
			if e.Key() != timeseries.FieldID {
				fields = append(fields, bson.E{Key: e.Key(), Value: e.Value()})
			}
		}
		return c.Update(ctx, []mongodb.Update{{
			Filter: mongodb.Document(bson.D{{Key: timeseries.FieldID, Value: id}, {Key: rollup.FieldRevision, Value: revision - 1}}),
			Update: mongodb.Set(fields),
		}})
	}))
	return done, mongodb.Failure("storing a nested document", err)
}

// Periods calls each for every document of a level: its series, and the time at which its period begins, in milliseconds.
func (r *Rollups) Periods(ctx context.Context, o timeseries.Options, level string, each func(meta bson.RawValue, from int64)) error {
	q := mongodb.Query{
		Filter:     mongodb.Document(bson.D{}),
		Projection: mongodb.Document(bson.D{{Key: timeseries.FieldMeta, Value: 1}, {Key: timeseries.MinPath(o.TimeField), Value: 1}}),
	}
	return r.find(ctx, "listing rollup documents", r.ports.Levels[level], q, func(d bson.Raw) error {
		from, ok := d.Lookup(timeseries.FieldControl, timeseries.FieldMin, o.TimeField).DateTimeOK()
		if ok {
			each(d.Lookup(timeseries.FieldMeta), from)
		}
		return nil
	})
}
