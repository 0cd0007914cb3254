package collection

import (
	"context"
	"fmt"
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

// name returns the name of the index.
func (d indexDefinition) name() string { return strings.TrimPrefix(d.ID, definitionPrefix) }

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
		kept[d.name()] = d
		return nil
	})
	return kept, mongodb.Failure("reading the definitions of indexes", err)
}

// keepTries bounds how often keep writes a definition because another writer was quicker.
const keepTries = 5

// keep writes a definition over any other under its name, because the index of that name was just made. It reads the definition
// of a quicker writer first. So two commands at once both end, and one of their definitions stays.
func (s *series) keep(ctx context.Context, d indexDefinition) error {
	const operation = "storing the definition of the index"
	ctx, cancel := context.WithTimeout(ctx, s.db.WriteTimeout())
	defer cancel()
	for range keepTries {
		kept, err := s.keptIndexes(ctx)
		if err != nil {
			return err
		}
		have, found := kept[d.name()]
		var written bool
		switch {
		case !found:
			written, err = mongodb.Changed(s.ports.Options.Insert(ctx, []bson.Raw{mongodb.Document(d)}))
		case !have.damaged && have.Keys == d.Keys && have.Options == d.Options && have.By == d.By:
			return nil
		default:
			written, err = s.replaceDefinition(ctx, have, d)
		}
		if err != nil {
			return mongodb.Failure(operation, err)
		}
		if written {
			return nil
		}
	}
	return ErrChangedMeanwhile
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

// adjustUserExpiries adapts the TTL indexes of users to the span of these options, which is no smaller than the present span. An
// index for a smaller span would delete a bucket before its last measurement is old enough.
func (s *series) adjustUserExpiries(ctx context.Context, o timeseries.Options) error {
	have, err := ReadDefinition(ctx, s.ports.Options)
	if err != nil {
		return err
	}
	kept, err := s.keptIndexes(ctx)
	if err != nil {
		return err
	}
	specs, err := s.rawIndexes(ctx)
	if err != nil {
		return err
	}
	for _, spec := range specs {
		seconds, expires := expiryIn(spec)
		if !expires || !isPartial(spec) {
			continue
		}
		// A cluster shows the seconds of one shard, and an earlier change may have reached only some.
		if wanted := expiryFor(o, have.Options, spec, kept) + o.Span()/1000; wanted != seconds || s.db.Server().Sharded {
			if err := s.setIndexExpiry(ctx, spec, wanted); err != nil {
				return err
			}
		}
	}
	return nil
}

// expiryFor returns the age, in seconds, at which a user's index deletes measurements. It is the user's value if the kept
// definition describes the index with the present options. The same holds for the wanted options, after a change that was cut
// off. Otherwise it is the index's seconds minus the present span. That is the smaller span, so nothing is deleted too early.
func expiryFor(wanted, present timeseries.Options, spec bson.Raw, kept map[string]indexDefinition) int64 {
	index := onBuckets(spec)
	if d, ok := kept[nameIn(spec)]; ok && (d.describes(present, index) || d.describes(wanted, index)) {
		own, _ := expiryIn(d.user.Options)
		return own
	}
	seconds, _ := expiryIn(spec)
	return seconds - present.Span()/1000
}

// setIndexExpiry changes the seconds after which an index deletes buckets. On a server that cannot change them it makes the index
// again.
func (s *series) setIndexExpiry(ctx context.Context, spec bson.Raw, seconds int64) error {
	name := nameIn(spec)
	err := s.modifyExpiry(ctx, name, seconds)
	if mongodb.HasCode(err, mongodb.CodeCommandNotFound, mongodb.CodeNotImplemented) {
		if err := s.dropByName(ctx, name); err != nil {
			return err
		}
		err = s.build(ctx, append(fieldsOf(spec, "v", "ns", "expireAfterSeconds"), bson.E{Key: "expireAfterSeconds", Value: seconds}))
	}
	return mongodb.Failure("changing the expiry of the index "+name, err)
}

// alignExpiry adapts a new TTL index to the present options, which may have changed while MongoDB built the index. A later change
// finds the index.
func (s *series) alignExpiry(ctx context.Context, name string, user timeseries.Index) error {
	change := OptionsChange{Options: s.ports.Options, WriteTimeout: s.db.WriteTimeout(), Sleep: sleep}
	lock, ctx, err := change.lock(ctx)
	if err != nil {
		return err
	}
	defer lock.release(ctx)
	have, err := ReadDefinition(ctx, s.ports.Options)
	if err != nil || have.Span() == s.options.Span() {
		return err
	}
	due, err := have.BucketIndex(user)
	if err != nil {
		return err
	}
	specs, err := s.rawIndexes(ctx)
	if err != nil {
		return err
	}
	spec := named(specs, name)
	if spec == nil {
		return nil // It was dropped meanwhile.
	}
	seconds, _ := expiryIn(due.Options)
	return s.setIndexExpiry(ctx, spec, seconds)
}
