package collection

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/mongodb"
	"waterwheel/internal/timeseries"
)

// CreateIndex makes an index on measurements. It makes the index on buckets that serves the same queries, and keeps the user's
// definition beside it. False means that the index already existed. A *timeseries.Error says what time series refuse. ErrNotSetUp
// means that there is no such time series. Other errors say what prevents the index. The call takes as long as MongoDB builds the
// index, and the build may go on after ctx has ended. CreateIndex reads the new index back and drops it if MongoDB ignored an
// option.
func (t TimeSeries) CreateIndex(ctx context.Context, user timeseries.Index) (Index, bool, error) {
	return t.createIndex(ctx, user, byCommand)
}

func (t TimeSeries) createIndex(ctx context.Context, user timeseries.Index, by indexOrigin) (Index, bool, error) {
	s := t.series()
	list, err := s.listIndexes(ctx)
	if err != nil {
		return Index{}, false, err
	}
	buckets, err := s.options.BucketIndex(user)
	if err != nil {
		return Index{}, false, err
	}
	there, found, err := list.beside(buckets)
	if err != nil {
		return Index{}, false, err
	}
	if !found {
		if err := s.refuseMixed(ctx, user.Keys); err != nil {
			return Index{}, false, err
		}
		if err := s.buildIndex(ctx, user, buckets); err != nil {
			return Index{}, false, err
		}
	}
	name := nameIn(buckets.Options)
	if found {
		name = there.Name
	}
	if there.Kept && by == byMetaIndexes || there.Kind != IndexOfUser && found {
		return there, false, nil // A user's definition stays, and an index that waterwheel needs has none.
	}
	definition, err := newIndexDefinition(name, user, by)
	if err != nil {
		return Index{}, false, err
	}
	if err := s.keep(ctx, definition); err != nil {
		return Index{}, false, err
	}
	if _, notExpiring := user.Options.LookupErr("expireAfterSeconds"); notExpiring == nil {
		if err := s.alignExpiry(ctx, name, user); err != nil {
			return Index{}, false, err
		}
	}
	if list, err = s.listIndexes(ctx); err != nil {
		return Index{}, false, err
	}
	index, _ := list.find(name)
	if by == byCommand {
		index.Doubts = s.doubts(ctx, user)
	}
	return index, !found, nil
}

// beside finds the existing index that already serves as the wanted one, or the conflict with one.
func (l IndexList) beside(want timeseries.Index) (there Index, found bool, err error) {
	name := nameIn(want.Options)
	conflict := func(name, why string) error { return fmt.Errorf("an index %q exists already %s", name, why) }
	for _, i := range l.Indexes {
		same := equal(i.Buckets.Keys, want.Keys) && sameOption(want.Options, i.Buckets.Options, "partialFilterExpression") &&
			sameOption(want.Options, i.Buckets.Options, "collation") && sameOption(want.Options, i.Buckets.Options, "sparse")
		switch {
		case same && i.Name == name && sameOption(want.Options, i.Buckets.Options, "expireAfterSeconds"):
			return i, true, nil
		case same && i.Name == name:
			return i, false, conflict(i.Name, "with another expireAfterSeconds: drop it first")
		case same:
			return i, false, conflict(i.Name, "on the same keys: use that one, or drop it first")
		case i.Name == name:
			return i, false, conflict(i.Name, "on other keys or with other options: choose another name, or drop it first")
		}
	}
	return Index{}, false, nil
}

// ErrInterruptedBuild means that the context ended while MongoDB was building an index.
var ErrInterruptedBuild = errors.New("MongoDB may continue to build the index: check with `waterwheel collection indexes`, and drop the index to stop the build")

// buildIndex makes the index on buckets that serves a user's, and checks what MongoDB made.
func (s *series) buildIndex(ctx context.Context, user, index timeseries.Index) error {
	const operation = "creating the index"
	if err := s.build(ctx, append(bson.D{{Key: "key", Value: index.Keys}}, fieldsOf(index.Options)...)); err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("%s: %w: %w", operation, context.Cause(ctx), ErrInterruptedBuild)
		}
		if why := s.whyUnbuilt(user, err); why != "" {
			return fmt.Errorf("%s: %w", why, mongodb.Failure(operation, err))
		}
		return mongodb.Failure(operation, err)
	}
	specs, err := s.rawIndexes(ctx)
	if err != nil {
		return err
	}
	name := nameIn(index.Options)
	made := named(specs, name)
	if made == nil {
		return fmt.Errorf("%s: MongoDB acknowledged the index %q but does not list it", operation, name)
	}
	if ignored := ignoredOptions(index.Options, made); len(ignored) > 0 {
		if err := s.dropByName(ctx, name); err != nil {
			return err
		}
		return fmt.Errorf("%s: this MongoDB ignores %s, so the index would not work as specified and was dropped again",
			operation, strings.Join(ignored, " and "))
	}
	return nil
}

// build makes an index of a specification, and waits until MongoDB has built it.
func (s *series) build(ctx context.Context, spec bson.D) error {
	return s.db.Translate(s.driver().RunCommand(ctx, bson.D{{Key: "createIndexes", Value: s.buckets().Name()}, {Key: "indexes", Value: bson.A{spec}}}).Err())
}

// ignoredOptions returns the options that change what an index does and that the made index lacks.
func ignoredOptions(want, made bson.Raw) (ignored []string) {
	for _, option := range []string{"hidden", "sparse", "partialFilterExpression", "expireAfterSeconds"} {
		if _, err := want.LookupErr(option); err == nil && !sameOption(want, made, option) {
			ignored = append(ignored, option)
		}
	}
	return ignored
}

// refuseMixed refuses an index on a measurement field while a bucket holds values of several kinds in it, as MongoDB's own time
// series do. An index holds a bucket's smallest and largest value, and a query compares with values of one kind. A query by a
// number misses a bucket whose largest value is a text, although the bucket may hold matching numbers. Consumers put values of
// another kind into another bucket, so only buckets of other writers are refused. Segments hold series of several kinds, but are
// not checked, because no query finds them by such an index.
func (s *series) refuseMixed(ctx context.Context, keys bson.Raw) error {
	elements, err := keys.Elements()
	if err != nil {
		return fmt.Errorf("the keys of the index: %w", err)
	}
	for _, e := range elements {
		if field := e.Key(); e.Value().IsNumber() && field != s.options.TimeField && !s.options.OfMeta(field) {
			if err := s.refuseMixedField(ctx, field); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *series) refuseMixedField(ctx context.Context, field string) error {
	low, high := timeseries.MinPath(field), timeseries.MaxPath(field)
	kindOf := func(path string) bson.D { return bson.D{{Key: "$type", Value: "$" + path}} }
	isBucket := timeseries.IsAbsent(timeseries.PathOwner)
	query := mongodb.Query{
		Filter:     mongodb.Document(bson.D{isBucket, {Key: "$expr", Value: bson.D{{Key: "$ne", Value: bson.A{kindOf(low), kindOf(high)}}}}}),
		Projection: mongodb.Document(bson.D{{Key: low, Value: 1}, {Key: high, Value: 1}}),
	}
	var mixed error
	search := func(bucket bson.Raw) error {
		mixed = mixedIn(bucket, field)
		return mixed
	}
	err := s.ports.Buckets.Find(ctx, query, search)
	if mongodb.Refuses(err) {
		query.Filter = mongodb.Document(bson.D{isBucket}) // a server that cannot compare the kinds sends all values
		err = s.ports.Buckets.Find(ctx, query, search)
	}
	if mixed != nil {
		return mixed
	}
	return mongodb.Failure("comparing the types of values in buckets", err)
}

// mixedIn returns an error if the smallest and the largest value of a field in a bucket are of different kinds.
func mixedIn(bucket bson.Raw, field string) error {
	path := func(of string) []string {
		return append([]string{timeseries.FieldControl, of}, strings.Split(field, ".")...)
	}
	least, most := bucket.Lookup(path(timeseries.FieldMin)...), bucket.Lookup(path(timeseries.FieldMax)...)
	if timeseries.CanonicalType(least.Type) == timeseries.CanonicalType(most.Type) {
		return nil
	}
	return fmt.Errorf("%s cannot be indexed: the bucket %v holds values of several types in this field, so a query that uses the index "+
		"would miss some measurements. Consumers write no such bucket: correct the bucket, or remove it from the collection",
		field, bucket.Lookup(timeseries.FieldID))
}

// NoIndexError means that there is no index with this name.
type NoIndexError struct {
	Name string
	Have []string // names of the indexes that can be dropped and hidden
}

// Error names the existing indexes.
func (e *NoIndexError) Error() string {
	if len(e.Have) == 0 {
		return fmt.Sprintf("there is no index %q; the only indexes are those that waterwheel needs", e.Name)
	}
	return fmt.Sprintf("there is no index %q; the indexes that can be changed are %s", e.Name, strings.Join(e.Have, ", "))
}

// DroppableIndex returns the index that DropIndex would drop. Nil means that only a kept definition is left. Its errors are those
// of DropIndex.
func (t TimeSeries) DroppableIndex(ctx context.Context, name string) (*Index, error) {
	list, err := t.Indexes(ctx)
	if err != nil || slices.Contains(list.Gone, name) {
		return nil, err
	}
	index, err := list.changeable(name)
	if err != nil {
		return nil, err
	}
	return &index, nil
}

// DropIndex drops an index and its kept definition, or a kept definition whose index is gone. A *NoIndexError means that there is
// neither. Another error may mean that the index must stay.
func (t TimeSeries) DropIndex(ctx context.Context, name string) error {
	s := t.series()
	list, err := s.listIndexes(ctx)
	if err != nil {
		return err
	}
	if !slices.Contains(list.Gone, name) {
		if _, err := list.changeable(name); err != nil {
			return err
		}
		if err := s.dropByName(ctx, name); err != nil {
			return err
		}
	}
	return s.forget(ctx, definitionPrefix+name)
}

// HideIndex hides an index from the query planner, or shows it again. Hiding shows what dropping would cost. False means that
// nothing had to change. Its errors are those of DropIndex, and an error if the server cannot hide indexes.
func (t TimeSeries) HideIndex(ctx context.Context, name string, hidden bool) (bool, error) {
	s := t.series()
	list, err := s.listIndexes(ctx)
	if err != nil {
		return false, err
	}
	index, err := list.changeable(name)
	if err != nil || index.Hidden == hidden {
		return false, err
	}
	change := bson.D{{Key: "name", Value: name}, {Key: "hidden", Value: hidden}}
	err = s.db.Translate(s.driver().RunCommand(ctx, bson.D{{Key: "collMod", Value: s.buckets().Name()}, {Key: "index", Value: change}}).Err())
	if mongodb.HasCode(err, mongodb.CodeCommandNotFound, mongodb.CodeNotImplemented) {
		return false, fmt.Errorf("this MongoDB cannot hide indexes: it can only drop them")
	}
	if err != nil {
		return false, mongodb.Failure("changing the index", err)
	}
	if list, err = s.listIndexes(ctx); err != nil {
		return false, err
	}
	if index, _ = list.find(name); index.Hidden != hidden {
		return false, fmt.Errorf("this MongoDB acknowledged the change of the index %q but did not make it", name)
	}
	return true, nil
}

// changeable returns an index that may be dropped and hidden.
func (l IndexList) changeable(name string) (Index, error) {
	index, found := l.find(name)
	if !found {
		e := &NoIndexError{Name: name}
		for _, i := range l.Indexes {
			if needs[i.Kind] == "" && i.Kind != IndexOfView {
				e.Have = append(e.Have, i.Name)
			}
		}
		return index, e
	}
	if why := needs[index.Kind]; why != "" {
		return index, fmt.Errorf("the index %q is needed: %s. It can be neither dropped nor hidden", name, why)
	}
	return index, nil
}

func (s *series) dropByName(ctx context.Context, name string) error {
	err := s.driver().RunCommand(ctx, bson.D{{Key: "dropIndexes", Value: s.buckets().Name()}, {Key: "index", Value: name}}).Err()
	return mongodb.Failure("dropping the index "+name, s.db.Translate(err))
}
