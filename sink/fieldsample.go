package sink

import (
	"context"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/mongodb"
	"waterwheel/internal/timeseries"
)

// sampledDocuments is how many buckets and segments SampleFields looks at.
const sampledDocuments = 200

// FieldSample reports which paths the newest measurements have.
type FieldSample struct {
	// Documents is how many buckets and segments were looked at. Zero means that none is stored.
	Documents int

	found map[string]bool
}

// Has reports whether a measurement in the sample has a path.
func (s FieldSample) Has(path string) bool { return s.found[path] }

// SampleFields looks for paths of measurements, in the meta or beside it, in the newest buckets and segments of the time series.
func (t TimeSeries) SampleFields(ctx context.Context, o timeseries.Options, paths ...string) (FieldSample, error) {
	sample := FieldSample{found: map[string]bool{}}
	err := t.Ports().Buckets.Find(ctx, mongodb.Query{
		Filter:     mongodb.Document(bson.D{}),
		Projection: mongodb.Document(bson.D{{Key: timeseries.FieldMeta, Value: 1}, {Key: timeseries.Path(timeseries.FieldControl, timeseries.FieldMax), Value: 1}}),
		Sort:       mongodb.Document(bson.D{{Key: timeseries.FieldID, Value: -1}}),
		Limit:      sampledDocuments,
	}, func(d bson.Raw) error {
		sample.Documents++
		bounds, _ := d.Lookup(timeseries.FieldControl, timeseries.FieldMax).DocumentOK() // of segments with the meta
		for _, path := range paths {
			sample.found[path] = sample.found[path] || hasPath(bounds, path) || o.OfMeta(path) && hasPath(d, timeseries.FieldMeta+path[len(o.MetaField):])
		}
		return nil
	})
	return sample, mongodb.Failure("looking at the newest buckets", err)
}

// hasPath reports whether a document has a dotted path. What stands in an array is not looked for: it may be there.
func hasPath(d bson.Raw, path string) bool {
	name, rest, deeper := strings.Cut(path, ".")
	v, err := d.LookupErr(name)
	if err != nil || !deeper {
		return err == nil
	}
	below, isObject := v.DocumentOK()
	return isObject && hasPath(below, rest) || v.Type == bson.TypeArray
}
