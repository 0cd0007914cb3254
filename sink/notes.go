package sink

import (
	"context"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/collection"
	"waterwheel/internal/mongodb"
	"waterwheel/internal/timeseries"
)

// Notes list what operators' commands have done to the measurements of a time series. It is safe for concurrent use.
type Notes struct{ c mongodb.Collection }

// Notes returns the notes of the time series.
func (c Contents) Notes() Notes { return Notes{c.ports.Options} }

// Deleted calls each for the positions of a source with offsets in [from, to) that are noted as deleted. The order is
// arbitrary, and some positions come more than once. A position may be noted and still be stored; then it was not deleted.
func (n Notes) Deleted(ctx context.Context, source timeseries.Source, from, to int64, each func(timeseries.Position)) error {
	return n.find(ctx, collection.NotedDeleted, source, from, to, each)
}

// Changed is Deleted for positions whose measurements are noted to have another meta than their records.
func (n Notes) Changed(ctx context.Context, source timeseries.Source, from, to int64, each func(timeseries.Position)) error {
	return n.find(ctx, collection.NotedChanged, source, from, to, each)
}

func (n Notes) find(
	ctx context.Context, kind collection.NoteKind, source timeseries.Source, from, to int64, each func(timeseries.Position),
) error {
	var decoded []timeseries.Position
	use := func(element []byte) (n int, err error) {
		if decoded, err = timeseries.DecodePositions(decoded[:0], element); err != nil {
			return 0, err
		}
		for _, p := range decoded {
			if p.Offset >= from && p.Offset < to {
				each(p)
			}
		}
		return len(decoded), nil
	}
	for tries := 1; ; tries++ {
		damaged := error(nil)
		err := n.c.Find(ctx, collection.NoteQuery(kind, source, from, to-1), func(d bson.Raw) error {
			if err := readOffsets(d, use); err != nil {
				damaged = fmt.Errorf("the note %v in the options collection is damaged: %w; correct or delete the note", d.Lookup(timeseries.FieldID), err)
			}
			return damaged
		})
		if damaged != nil {
			return damaged
		}
		err = mongodb.Failure("reading the notes of edits", err)
		if _, ok := errors.AsType[*mongodb.OutageError](err); !ok || tries == scanTries {
			return err
		}
		if err := pauseScan(ctx); err != nil {
			return err
		}
	}
}
