package sink

import (
	"context"
	"encoding/binary"
	"math"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/mongodb"
	"waterwheel/internal/timeseries"
)

// newestPatience bounds how long Newest looks: a partition that has written nothing for long may have its newest bucket far
// behind those of the others.
const newestPatience = time.Second

// Newest returns a time (milliseconds) that no stored bucket of this partition has a larger control.min.<time> than, read
// causally after the claim; math.MinInt64: it has no bucket, math.MaxInt64: that cannot be told. It goes by the _id, which
// begins with the seconds of that time and has an index in every collection.
func (p *Partition) Newest(ctx context.Context) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, newestPatience)
	defer cancel()
	newest := int64(math.MinInt64)
	err := p.find(ctx, p.store.Ports.Buckets, mongodb.Query{
		Filter:     mongodb.Document(sourceFilter(p.source)),
		Projection: mongodb.Document(bson.D{{Key: timeseries.FieldID, Value: 1}}),
		Sort:       mongodb.Document(bson.D{{Key: timeseries.FieldID, Value: -1}}),
		Limit:      1,
	}, func(d bson.Raw) error {
		newest = math.MaxInt64
		id, ok := d.Lookup(timeseries.FieldID).ObjectIDOK()
		if seconds := binary.BigEndian.Uint32(id[:4]); ok && seconds <= math.MaxInt32 { // others do not sort by time
			newest = int64(seconds)*1000 + 999
		}
		return nil
	})
	return newest, mongodb.Failure("reading the newest bucket", err)
}
