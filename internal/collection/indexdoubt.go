package collection

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/mongodb"
	"waterwheel/internal/timeseries"
)

// doubts says why a new index may not do what its user expects, or what else it does.
func (s *series) doubts(ctx context.Context, user timeseries.Index) (all []string) {
	if _, err := user.Options.LookupErr("expireAfterSeconds"); err == nil {
		if doubt := s.expiryDoubt(ctx); doubt != "" {
			all = append(all, doubt)
		}
	}
	elements, err := user.Keys.Elements()
	if err != nil {
		return all
	}
	var paths []string
	for _, e := range elements {
		if path := e.Key(); path != s.options.TimeField && !strings.HasSuffix(path, "$**") {
			paths = append(paths, path)
		}
	}
	return append(append(all, s.fieldDoubts(ctx, paths)...), s.refusalDoubts(elements)...)
}

// expiryDoubt returns a doubt if the server may keep a TTL index without deleting anything. A server that deletes counts its
// rounds. A cluster's router has no rounds to count. A server that does not report its status gives no reason to doubt.
func (s *series) expiryDoubt(ctx context.Context) string {
	status, err := s.admin().RunCommand(ctx, bson.D{{Key: "serverStatus", Value: 1}}).Raw()
	_, counting := status.Lookup("metrics", "ttl").DocumentOK()
	if err != nil || counting || s.db.Server().Sharded {
		return ""
	}
	return "this MongoDB may not delete expired documents, because its serverStatus has no metrics.ttl: check whether it deletes any"
}

// fieldDoubts names the paths that no measurement of a sample has. Without a sample it says nothing.
func (s *series) fieldDoubts(ctx context.Context, paths []string) (all []string) {
	looked := paths
	for _, path := range paths {
		looked = append(looked, s.namesake(path))
	}
	sample, err := s.SampleFields(ctx, s.options, looked...)
	if err != nil || sample.Documents == 0 {
		return nil
	}
	for _, path := range paths {
		if sample.Has(path) {
			continue
		}
		doubt := fmt.Sprintf("no measurement in the newest %d buckets and segments has %s: the index finds nothing there", sample.Documents, path)
		if other := s.namesake(path); sample.Has(other) {
			doubt += fmt.Sprintf(". They have %s: drop this index, and create one on that path", other)
		}
		all = append(all, doubt)
	}
	return all
}

// namesake returns the path that the user may have meant. For a field it is a path in the meta, and for a part of the meta a path
// beside it.
func (s *series) namesake(path string) string {
	switch {
	case s.options.MetaField == "":
		return path
	case s.options.OfMeta(path):
		return strings.TrimPrefix(path, s.options.MetaField+".")
	}
	return s.options.MetaField + "." + path
}

// refusalDoubts says which measurements MongoDB refuses while an index exists. A field beside the meta has two keys in the index,
// its smallest and its largest value. MongoDB takes an array in only one key of an index.
func (s *series) refusalDoubts(keys []bson.RawElement) (all []string) {
	refused := func(what string, paths []string, word string) {
		if len(paths) > 0 {
			all = append(all, fmt.Sprintf("while this index exists, MongoDB refuses a measurement with %s %s: it becomes a dead letter "+
				"(refused_by_database)", what, strings.Join(paths, word)))
		}
	}
	var scalars, parts, places []string
	for _, e := range keys {
		path := e.Key()
		switch kind, named := e.Value().StringValueOK(); {
		case named && kind != "hashed":
			places = append(places, path)
		case path == s.options.TimeField || strings.HasSuffix(path, "$**"):
		case named || !s.options.OfMeta(path):
			scalars = append(scalars, path)
		default:
			parts = append(parts, path)
		}
	}
	refused("an array in", scalars, " or ")
	if len(parts) > 1 {
		refused("arrays in two of", parts, ", ")
	}
	refused("a value that is not a location in", places, " or ")
	return all
}

// whyUnbuilt explains in terms of measurements why MongoDB refused to make an index. Empty means that there is nothing to add to
// MongoDB's message.
func (s *series) whyUnbuilt(user timeseries.Index, err error) string {
	refused := (*mongodb.CommandError)(nil)
	elements, malformed := user.Keys.Elements()
	if !errors.As(err, &refused) || malformed != nil {
		return ""
	}
	var fields, places []string
	for _, e := range elements {
		switch path := e.Key(); {
		case path == s.options.TimeField || s.options.OfMeta(path):
		case e.Value().IsNumber():
			fields = append(fields, path)
		default:
			places = append(places, path)
		}
	}
	switch {
	case refused.Code == mongodb.CodeCannotCreateIndex && len(places) > 0:
		return fmt.Sprintf("this MongoDB cannot create a 2dsphere index on a field outside the meta (%s): MongoDB 5.2 and later can. "+
			"All versions can create one on a part of the meta", strings.Join(places, ", "))
	case refused.Code == mongodb.CodeParallelArrays && len(fields) > 0:
		return fmt.Sprintf("a measurement has an array in %s: MongoDB cannot index it, because the index holds both the minimum and the maximum "+
			"of this field in each bucket; index other fields", strings.Join(fields, " or "))
	case refused.Code == mongodb.CodeParallelArrays:
		return "a meta has arrays in two keys of the index, and MongoDB allows an array in only one of them: create one index for each part"
	}
	return ""
}

// sampledDocuments is how many buckets and segments SampleFields looks at.
const sampledDocuments = 200

// FieldSample holds the paths of the newest measurements.
type FieldSample struct {
	// Documents is the number of sampled buckets and segments. Zero means that none is stored.
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
		bounds, _ := d.Lookup(timeseries.FieldControl, timeseries.FieldMax).DocumentOK() // for segments including the meta
		for _, path := range paths {
			sample.found[path] = sample.found[path] || hasPath(bounds, path) || o.OfMeta(path) && hasPath(d, timeseries.FieldMeta+path[len(o.MetaField):])
		}
		return nil
	})
	return sample, mongodb.Failure("reading the newest buckets", err)
}

// hasPath reports whether a document has a dotted path. It returns true at an array, whose elements may have the rest of the
// path.
func hasPath(d bson.Raw, path string) bool {
	name, rest, deeper := strings.Cut(path, ".")
	v, err := d.LookupErr(name)
	if err != nil || !deeper {
		return err == nil
	}
	below, isObject := v.DocumentOK()
	return isObject && hasPath(below, rest) || v.Type == bson.TypeArray
}
