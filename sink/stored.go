package sink

import (
	"context"
	"errors"
	"fmt"
	"math"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/timeseries"
)

// progressEvery is how many buckets are read between two reports of progress.
const progressEvery = 1000

// storedBatch is how many buckets' lists come in one answer: not every server bounds its answers to what may be read.
const storedBatch = 1000

// Stored reads D: the positions with offsets from start on, below end, that buckets of this partition list, causally after
// the claim (E2). The window from start to end holds at most 2^32 offsets. When D would take more than StoredBytes, the
// window of the answer ends earlier, and what is beyond must be asked for again. progress, if not nil, is told now and then
// how many buckets and positions were read. A *DamagedError names a bucket of which it cannot be told what it holds.
func (p *Partition) Stored(ctx context.Context, start, end int64, progress func(buckets, positions int)) (*timeseries.PositionSet, error) {
	if p.window > 0 && end-start > 2*p.window {
		end = start + 2*p.window
	}
	set := timeseries.NewPositionSet(start, end)
	buckets, positions := 0, 0
	count := func(element []byte) (int, error) {
		n, err := set.AddEncoded(element)
		positions += n
		return n, err
	}
	each := func(d bson.Raw) error {
		if err := p.readListed(d, count); err != nil {
			return err
		}
		shrink(set, p.store.StoredBytes)
		if buckets++; progress != nil && buckets%progressEvery == 0 {
			progress(buckets, positions)
		}
		return nil
	}
	last := end - 1
	if end == math.MaxInt64 {
		last = end
	}
	if err := p.findListed(ctx, start, last, each); err != nil {
		return nil, err
	}
	if _, fits := set.Window(); fits < end {
		p.window = fits - start
	}
	return set, nil
}

// shrink halves the window of D until it takes no more than so many bytes. A single record always fits.
func shrink(set *timeseries.PositionSet, bytes int64) {
	for set.Bytes() > bytes {
		start, _ := set.Window()
		last, _ := set.Max()
		if last <= start {
			return
		}
		set.Shrink(start + (last-start+1)/2)
	}
}

// eachListed calls use with every element of offsets of the buckets that may list offsets from first to last.
func (p *Partition) eachListed(ctx context.Context, first, last int64, use func(element []byte) (int, error)) error {
	return p.findListed(ctx, first, last, func(d bson.Raw) error { return p.readListed(d, use) })
}

// findListed finds the buckets of the partition that may list offsets from first to last, without their columns. A
// comparison finds only numbers: a bucket whose smallest or largest offset was taken out, or made a text or null, may list
// anything, and it must not be passed over (E2). So the conditions say what is not wanted; the index serves them as well.
func (p *Partition) findListed(ctx context.Context, first, last int64, each func(bson.Raw) error) error {
	filter := append(sourceFilter(p.source), bson.E{Key: timeseries.PathLast, Value: not("$lt", first)})
	if last < math.MaxInt64 {
		filter = append(filter, bson.E{Key: timeseries.PathFirst, Value: not("$gt", last)})
	}
	err := p.find(ctx, p.store.ports.Buckets, Query{
		Filter:     document(filter),
		Projection: document(bson.D{{Key: timeseries.PathOffsets, Value: 1}, {Key: timeseries.PathCount, Value: 1}}),
		Batch:      storedBatch,
	}, each)
	if damaged := (*DamagedError)(nil); err == nil || errors.As(err, &damaged) {
		return err
	}
	return failure("reading the stored positions", err)
}

// not is the condition that a comparison does not hold, by whatever reason.
func not(comparison string, with int64) bson.D {
	return bson.D{{Key: "$not", Value: bson.D{{Key: comparison, Value: with}}}}
}

// readListed calls use, which returns the number of positions, with each element of a bucket's offsets, and checks that
// they add up to its count (E1).
func (p *Partition) readListed(d bson.Raw, use func(element []byte) (int, error)) error {
	damaged := func(format string, args ...any) error {
		return &DamagedError{
			Namespace: p.store.Namespace, ID: cloned(d.Lookup(timeseries.FieldID)), Reason: fmt.Sprintf(format, args...),
		}
	}
	if err := d.Validate(); err != nil { // the driver's look-ups below would panic
		return damaged("it is no well-formed document: %v", err)
	}
	count, ok := d.Lookup(timeseries.FieldControl, timeseries.FieldCount).AsInt64OK()
	if !ok {
		return damaged("%s is no number", timeseries.PathCount)
	}
	array, ok := d.Lookup(timeseries.FieldControl, timeseries.FieldSource, timeseries.FieldOffsets).ArrayOK()
	if !ok {
		return damaged("%s is no array", timeseries.PathOffsets)
	}
	elements, err := array.Values()
	if err != nil {
		return damaged("%s is no array: %v", timeseries.PathOffsets, err)
	}
	var listed int64
	for i, element := range elements {
		_, encoded, ok := element.BinaryOK()
		if !ok {
			return damaged("%s.%d is no binary data", timeseries.PathOffsets, i)
		}
		n, err := use(encoded)
		if err != nil {
			return damaged("%s.%d: %v", timeseries.PathOffsets, i, err)
		}
		listed += int64(n)
	}
	if listed != count {
		return damaged("%s lists %d positions, %s is %d", timeseries.PathOffsets, listed, timeseries.PathCount, count)
	}
	return nil
}
