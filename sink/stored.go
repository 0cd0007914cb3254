package sink

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/collection"
	"waterwheel/internal/mongodb"
	"waterwheel/internal/record"
	"waterwheel/internal/timeseries"
	"waterwheel/internal/words"
)

// storedBatch is the number of buckets' lists in one answer, because not every server keeps its answers below the size that may
// be read.
const storedBatch = 1000

// Stored reads the stored positions, causally after the claim (E2): the positions from start on, below end, that buckets of this
// partition list or that are noted as deleted. The window from start to end holds at most 2^32 offsets. If they would take more
// than StoredBytes, the window of the answer ends earlier, and the caller must ask for later offsets again. A *record.StopError
// names a bucket with unreadable contents.
func (p *Partition) Stored(ctx context.Context, start, end int64) (*timeseries.PositionSet, error) {
	if err := p.fenceShards(ctx); err != nil {
		return nil, err
	}
	if p.window > 0 && end-start > 2*p.window {
		end = start + 2*p.window
	}
	set := timeseries.NewPositionSet(start, end)
	err := p.eachListed(ctx, start, end-1, func(element []byte) (int, error) {
		n, err := set.AddEncoded(element)
		shrink(set, p.store.StoredBytes)
		return n, err
	})
	if mongodb.HasCode(err, mongodb.CodeSnapshotTooOld) { // the next try reads fewer offsets
		p.window = max((end-start)/8, 1)
	}
	if err != nil {
		return nil, err
	}
	if _, fits := set.Window(); fits < end {
		p.window = fits - start
	}
	return set, nil
}

// shrink halves the window of the stored positions until it takes at most the given bytes. A single record always fits.
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

// eachListed calls use with every element of offsets. The buckets that may list offsets from first to last come first, and then
// the notes of deleted positions. The type notes in package collection says why in this order.
func (p *Partition) eachListed(ctx context.Context, first, last int64, use func(element []byte) (int, error)) error {
	const operation = "reading the stored positions"
	err := p.find(ctx, p.store.Ports.Buckets, mongodb.Query{
		Filter:     mongodb.Document(timeseries.Listing(p.source, first, last)),
		Projection: mongodb.Document(bson.D{{Key: timeseries.PathOffsets, Value: 1}, {Key: timeseries.PathCount, Value: 1}}),
		Batch:      storedBatch, AtOnce: true,
	}, func(d bson.Raw) error { return p.readListed(d, use) })
	if err != nil {
		return mongodb.Failure(operation, err)
	}
	return mongodb.Failure(operation, p.find(ctx, p.store.Ports.Options, collection.NoteQuery(collection.NotedDeleted, p.source, first, last), func(d bson.Raw) error {
		if err := readOffsets(d, use); err != nil {
			return &record.StopError{Reason: "damaged_bucket", Detail: fmt.Sprintf(
				"the note %v in the options collection of %s is damaged: %v; it is not known which deleted records the note lists. Delete the note. "+
					"If records that only this note lists are read again, they are then stored again",
				d.Lookup(timeseries.FieldID), p.store.Namespace, err)}
		}
		return nil
	}))
}

// readListed is readOffsets for a bucket. The error names a damaged bucket.
func (p *Partition) readListed(d bson.Raw, use func(element []byte) (int, error)) error {
	if err := readOffsets(d, use); err != nil {
		return &record.StopError{Reason: "damaged_bucket", Detail: fmt.Sprintf(
			"the bucket %v of %s is damaged: %v; it is not known which records the bucket holds. Repair control.source.offsets and "+
				"control.count of the bucket, or delete the bucket. If records that only this bucket lists are read again, they are then stored again",
			d.Lookup(timeseries.FieldID), p.store.Namespace, err)}
	}
	return nil
}

// readOffsets calls use with each element of a document's offsets; use returns the element's number of positions. readOffsets
// checks that they add up to the document's count (E1). The error says how the document is damaged.
func readOffsets(d bson.Raw, use func(element []byte) (int, error)) error {
	if err := d.Validate(); err != nil { // otherwise the driver's look-ups below would panic
		return fmt.Errorf("it is not a well-formed document: %w", err)
	}
	count, ok := d.Lookup(timeseries.FieldControl, timeseries.FieldCount).AsInt64OK()
	if !ok {
		return fmt.Errorf("%s is not a number", timeseries.PathCount)
	}
	array, ok := d.Lookup(timeseries.FieldControl, timeseries.FieldSource, timeseries.FieldOffsets).ArrayOK()
	if !ok {
		return fmt.Errorf("%s is not an array", timeseries.PathOffsets)
	}
	elements, err := array.Values()
	if err != nil {
		return fmt.Errorf("%s is not an array: %w", timeseries.PathOffsets, err)
	}
	var listed int64
	for i, element := range elements {
		_, encoded, ok := element.BinaryOK()
		if !ok {
			return fmt.Errorf("%s.%d is not binary data", timeseries.PathOffsets, i)
		}
		n, err := use(encoded)
		if err != nil {
			return fmt.Errorf("%s.%d: %w", timeseries.PathOffsets, i, err)
		}
		listed += int64(n)
	}
	if listed != count {
		return fmt.Errorf("%s lists %s, but %s is %d", timeseries.PathOffsets, words.Count(listed, "position"), timeseries.PathCount, count)
	}
	return nil
}

// newestPatience bounds how long Newest looks. A partition that has written nothing for long may have its newest bucket far
// behind those of other partitions.
const newestPatience = time.Second

// Newest returns an upper bound of control.min.<time>, in milliseconds, of all stored buckets of this partition. It is read
// causally after the claim. math.MinInt64 means that there is no bucket, and math.MaxInt64 that the bound is unknown. Newest
// goes by the _id, which begins with the seconds of that time and has an index in every collection.
func (p *Partition) Newest(ctx context.Context) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, newestPatience)
	defer cancel()
	newest := int64(math.MinInt64)
	err := p.find(ctx, p.store.Ports.Buckets, mongodb.Query{
		Filter:     mongodb.Document(timeseries.OfSource(p.source)),
		Projection: mongodb.Document(bson.D{{Key: timeseries.FieldID, Value: 1}}),
		Sort:       mongodb.Document(bson.D{{Key: timeseries.FieldID, Value: -1}}),
		Limit:      1,
	}, func(d bson.Raw) error {
		newest = math.MaxInt64
		id, ok := d.Lookup(timeseries.FieldID).ObjectIDOK()
		if seconds := binary.BigEndian.Uint32(id[:4]); ok && seconds <= math.MaxInt32 { // other _ids do not sort by time
			newest = int64(seconds)*1000 + 999
		}
		return nil
	})
	return newest, mongodb.Failure("reading the newest bucket", err)
}
