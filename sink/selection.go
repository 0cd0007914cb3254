package sink

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/timeseries"
)

// Editable is a Collection of which documents can be deleted, too.
type Editable interface {
	Collection
	// Delete deletes all documents that the filter finds, and returns how many these were. Its errors are those of the
	// other calls.
	Delete(ctx context.Context, filter bson.Raw) (int64, error)
}

// Bounds of what a Selection holds in memory and puts into one command.
const (
	maxSelectedBytes = 512 << 20 // of metas, and what is kept of each
	seriesOverhead   = 160       // of a series beside its meta, at most
	maxChanged       = 64        // buckets, each by an update of its own: a short command disturbs others little
	maxDeleted       = 1000
	minEdited        = 4 // buckets: so low goes the bound when answers do not come
	maxEditedBytes   = 4 << 20
)

// Selection is the buckets of a time series that a query on buckets finds, to be edited as whole documents beside the
// consumers that write them. Those meet the conditions of their updates (E5), and find out what happened.
//
// Each method is one attempt: after an *OutageError it can be made again.
type Selection struct {
	buckets, scratch Editable
	query            bson.Raw
	closed           bool
	timeout          time.Duration                   // of a write
	due              func(ctx context.Context) error // asked before each batch; its error ends the edit. Nil: nothing is asked
}

// NewSelection makes a Selection. The query is one on buckets; without closed the edits leave closed buckets alone. Scratch
// takes documents that are deleted again. Timeout bounds a write.
func NewSelection(buckets, scratch Editable, query bson.Raw, closed bool, timeout time.Duration) *Selection {
	return &Selection{buckets: buckets, scratch: scratch, query: query, closed: closed, timeout: timeout}
}

// Select is the Selection of a query on the buckets of a time series, which timeseries.Options translates.
func (d *Database) Select(series string, query bson.Raw, closed bool) *Selection {
	port := func(suffix string) driverCollection { return driverCollection{d.db.Collection(series + suffix), d} }
	return NewSelection(port(timeseries.BucketsSuffix), port(timeseries.OptionsSuffix), query, closed, d.o.WriteTimeout)
}

// Amount is a number of buckets and of the measurements in them.
type Amount struct {
	Buckets      int64 `json:"buckets"`
	Measurements int64 `json:"measurements"`
}

// Add adds an amount.
func (a *Amount) Add(b Amount) {
	a.Buckets += b.Buckets
	a.Measurements += b.Measurements
}

// SelectedSeries is a series of a Selection and what it holds of it, in open and in closed buckets.
type SelectedSeries struct {
	Meta         bson.RawValue // Type 0: none
	Open, Closed Amount
}

// Series lists the series of the selection in the order of MongoDB's sort, and calls progress with the number of buckets
// looked at. Two metas that only compare equal, such as 1 and 1.0, are two series.
func (s *Selection) Series(ctx context.Context, progress func(buckets int64)) ([]SelectedSeries, error) {
	index, held := map[string]int{}, 0
	var all []SelectedSeries
	var looked int64
	var tooMany error
	err := s.buckets.Find(ctx, Query{Filter: s.query, Projection: editedFields()}, func(d bson.Raw) error {
		looked++
		progress(looked)
		b := readEdited(d)
		i, known := index[b.series()]
		if !known {
			if held += len(b.meta.Value) + seriesOverhead; held > maxSelectedBytes {
				tooMany = fmt.Errorf("the filter finds more than %d series, whose metas would take more than %d MiB of memory: "+
					"take a narrower one, several times", len(all), maxSelectedBytes>>20)
				return tooMany
			}
			i = len(all)
			b.meta = cloned(b.meta)
			index[b.series()] = i
			all = append(all, SelectedSeries{Meta: b.meta})
		}
		if b.closed {
			all[i].Closed.Add(b.amount())
		} else {
			all[i].Open.Add(b.amount())
		}
		return nil
	})
	if tooMany != nil {
		return nil, tooMany
	}
	if err != nil {
		return nil, failure("looking for buckets", err)
	}
	slices.SortFunc(all, func(a, b SelectedSeries) int { return timeseries.Compare(a.Meta, b.Meta) })
	return all, nil
}

// Holds tells whether the time series, selected or not, has a bucket with exactly this meta.
func (s *Selection) Holds(ctx context.Context, meta bson.RawValue) (bool, error) {
	wanted, found := seriesOf(meta), false
	err := s.buckets.Find(ctx, Query{Filter: document(bson.D{isMeta(meta)}), Projection: editedFields()}, func(d bson.Raw) error {
		if readEdited(d).series() == wanted {
			found = true
			return errEnough
		}
		return nil
	})
	if found {
		return true, nil
	}
	return false, failure("looking for a series", err)
}

// errEnough ends a query whose answer is known.
var errEnough = errors.New("enough was read")

// edited is what an edit reads of a bucket.
type edited struct {
	id     bson.RawValue
	meta   bson.RawValue // Type 0: none
	count  int64
	closed bool
}

// editedFields is the projection of what readEdited reads.
func editedFields() bson.Raw {
	return document(bson.D{
		{Key: timeseries.FieldMeta, Value: 1}, {Key: timeseries.PathCount, Value: 1}, {Key: timeseries.PathClosed, Value: 1},
	})
}

// readEdited reads a bucket of whatever origin; its values are those of the document.
func readEdited(d bson.Raw) edited {
	b := edited{id: d.Lookup(timeseries.FieldID), meta: d.Lookup(timeseries.FieldMeta)}
	b.count, _ = d.Lookup(timeseries.FieldControl, timeseries.FieldCount).AsInt64OK()
	b.closed, _ = d.Lookup(timeseries.FieldControl, timeseries.FieldClosed).BooleanOK()
	return b
}

func (b edited) series() string { return seriesOf(b.meta) }

// key is the bucket's _id, as bytes.
func (b edited) key() string { return string(byte(b.id.Type)) + string(b.id.Value) }

func (b edited) amount() Amount { return Amount{1, b.count} }

func (b edited) cloned() edited {
	b.id, b.meta = cloned(b.id), cloned(b.meta)
	return b
}

// isMeta is the condition that a bucket has this meta, or one that compares equal.
func isMeta(meta bson.RawValue) bson.E {
	if meta.Type == 0 {
		return bson.E{Key: timeseries.FieldMeta, Value: bson.D{{Key: "$exists", Value: false}}}
	}
	if meta.Type == bson.TypeRegex || meta.Type == bson.TypeEmbeddedDocument && strings.HasPrefix(firstName(meta), "$") {
		return bson.E{Key: timeseries.FieldMeta, Value: bson.D{{Key: "$eq", Value: meta}}} // made by hand: else it is a condition
	}
	return bson.E{Key: timeseries.FieldMeta, Value: meta} // which every server finds quickly beside an _id
}

func firstName(object bson.RawValue) string {
	first, err := object.Document().IndexErr(0)
	if err != nil {
		return ""
	}
	return first.Key()
}

// editable is the query for the buckets that an edit may change.
func (s *Selection) editable() bson.Raw {
	if s.closed {
		return s.query
	}
	return document(bson.D{{Key: "$and", Value: bson.A{s.query, bson.D{s.open()}}}})
}

func (s *Selection) open() bson.E {
	return bson.E{Key: timeseries.PathClosed, Value: bson.D{{Key: "$ne", Value: true}}}
}

// among is the query for buckets by their _id.
func among(buckets []edited) bson.E {
	ids := make(bson.A, len(buckets))
	for i, b := range buckets {
		ids[i] = b.id
	}
	return bson.E{Key: timeseries.FieldID, Value: bson.D{{Key: "$in", Value: ids}}}
}
