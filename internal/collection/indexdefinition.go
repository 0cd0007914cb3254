package collection

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/mongodb"
	"waterwheel/internal/timeseries"
)

// definitionPrefix begins the _id of a kept definition in the options collection. The index's name follows.
const definitionPrefix = "index/"

// indexOrigin says what an index was made for.
type indexOrigin string

// The origins of users' indexes.
const (
	byCommand     indexOrigin = "create-index"
	byMetaIndexes indexOrigin = "META_INDEXES"
)

// indexDefinition is the document that keeps a user's own definition beside an index, because MongoDB cannot keep it in the
// index. Keys and options are Extended JSON, because not every server takes names with dots and dollars. It is only a note: a
// document that does not describe the index of its name is ignored.
type indexDefinition struct {
	ID      string      `bson:"_id"`
	Version int32       `bson:"version"`
	Keys    string      `bson:"keys"`
	Options string      `bson:"options,omitempty"`
	By      indexOrigin `bson:"by"`

	user    timeseries.Index
	damaged bool // The document was edited by hand.
}

func newIndexDefinition(name string, user timeseries.Index, by indexOrigin) (indexDefinition, error) {
	d := indexDefinition{ID: definitionPrefix + name, Version: 1, By: by, user: user}
	keys, err := bson.MarshalExtJSON(user.Keys, false, false)
	if err != nil {
		return d, fmt.Errorf("the keys of the index: %w", err)
	}
	d.Keys = string(keys)
	if user.Options != nil {
		options, err := bson.MarshalExtJSON(user.Options, false, false)
		if err != nil {
			return d, fmt.Errorf("the options of the index: %w", err)
		}
		d.Options = string(options)
	}
	return d, nil
}

// readIndexDefinition reads a document. A document that cannot be read describes no index.
func readIndexDefinition(raw bson.Raw) (d indexDefinition) {
	d.damaged = bson.Unmarshal(raw, &d) != nil ||
		bson.UnmarshalExtJSON([]byte(d.Keys), false, &d.user.Keys) != nil ||
		d.Options != "" && bson.UnmarshalExtJSON([]byte(d.Options), false, &d.user.Options) != nil
	d.ID, _ = raw.Lookup("_id").StringValueOK()
	return d
}

// describes reports whether the definition makes this index on buckets.
func (d indexDefinition) describes(o timeseries.Options, have timeseries.Index) bool {
	want, err := o.BucketIndex(d.user)
	if err != nil || d.damaged || !equal(want.Keys, have.Keys) {
		return false
	}
	for _, option := range []string{"partialFilterExpression", "expireAfterSeconds"} {
		if !sameOption(want.Options, have.Options, option) {
			return false
		}
	}
	return true
}

// sameOption compares an option of two indexes by value. An absent option equals false.
func sameOption(want, have bson.Raw, option string) bool {
	wanted, had := want.Lookup(option), have.Lookup(option)
	if wanted.Type == 0 || had.Type == 0 {
		flag, _ := wanted.BooleanOK()
		other, _ := had.BooleanOK()
		return wanted.Type == had.Type || (wanted.Type == bson.TypeBoolean || had.Type == bson.TypeBoolean) && flag == other
	}
	return timeseries.Compare(wanted, had) == 0
}

// equal compares documents by value and order of fields.
func equal(a, b bson.Raw) bool {
	object := func(d bson.Raw) bson.RawValue { return bson.RawValue{Type: bson.TypeEmbeddedDocument, Value: d} }
	return timeseries.Compare(object(a), object(b)) == 0
}

// keptIndexes returns the kept definitions by the name of their index.
func (s *series) keptIndexes(ctx context.Context) (map[string]indexDefinition, error) {
	kept := map[string]indexDefinition{}
	const behind = "index0" // sorts after all ids with the prefix
	between := bson.D{{Key: "$gte", Value: definitionPrefix}, {Key: "$lt", Value: behind}}
	err := s.ports.Options.Find(ctx, mongodb.Query{Filter: mongodb.Document(bson.D{{Key: "_id", Value: between}})}, func(raw bson.Raw) error {
		d := readIndexDefinition(raw)
		kept[strings.TrimPrefix(d.ID, definitionPrefix)] = d
		return nil
	})
	return kept, mongodb.Failure("reading the definitions of indexes", err)
}

func namesOf(kept map[string]indexDefinition) []string { return slices.Sorted(maps.Keys(kept)) }

// keepTries bounds how often keep writes a definition because another writer was quicker.
const keepTries = 5

// keep writes a definition over any other under its name, because the index of that name was just made. It reads the definition
// of a quicker writer first. So two commands at once both end, and one of their definitions stays.
func (s *series) keep(ctx context.Context, d indexDefinition) error {
	const doing = "storing the definition of the index"
	ctx, cancel := context.WithTimeout(ctx, s.db.WriteTimeout())
	defer cancel()
	for range keepTries {
		kept, err := s.keptIndexes(ctx)
		if err != nil {
			return err
		}
		have, found := kept[strings.TrimPrefix(d.ID, definitionPrefix)]
		var written bool
		switch {
		case !found:
			written, err = s.insertDefinition(ctx, d)
		case !have.damaged && have.Keys == d.Keys && have.Options == d.Options && have.By == d.By:
			return nil
		default:
			written, err = s.replaceDefinition(ctx, have, d)
		}
		if err != nil {
			return mongodb.Failure(doing, err)
		}
		if written {
			return nil
		}
	}
	return ErrChangedMeanwhile
}

func (s *series) insertDefinition(ctx context.Context, d indexDefinition) (bool, error) {
	raw, err := bson.Marshal(d)
	if err != nil {
		return false, err
	}
	return mongodb.Changed(s.ports.Options.Insert(ctx, []bson.Raw{raw}))
}

// replaceDefinition replaces a definition if it has not changed since it was read.
func (s *series) replaceDefinition(ctx context.Context, have, d indexDefinition) (bool, error) {
	filter := bson.D{{Key: "_id", Value: d.ID}}
	if !have.damaged {
		filter = append(filter, bson.E{Key: "version", Value: have.Version})
	}
	return mongodb.Changed(s.ports.Options.Update(ctx, []mongodb.Update{{Filter: mongodb.Document(filter), Update: mongodb.Set(bson.D{
		{Key: "version", Value: have.Version + 1},
		{Key: "keys", Value: d.Keys},
		{Key: "options", Value: d.Options},
		{Key: "by", Value: d.By},
	})}}))
}

// forget deletes a definition that describes no index.
func (s *series) forget(ctx context.Context, id string) error {
	c := s.driver().Collection(s.name + timeseries.OptionsSuffix)
	_, err := c.DeleteOne(ctx, bson.D{{Key: "_id", Value: id}})
	return mongodb.Failure("deleting the definition of the index", s.db.Translate(err))
}
