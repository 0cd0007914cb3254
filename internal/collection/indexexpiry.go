package collection

import (
	"context"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/mongodb"
	"waterwheel/internal/timeseries"
)

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
		seconds, expires := spec.Lookup("expireAfterSeconds").AsInt64OK()
		if _, partial := spec.Lookup("partialFilterExpression").DocumentOK(); !expires || !partial {
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
	name, _ := spec.Lookup("name").StringValueOK()
	keys, _ := spec.Lookup("key").DocumentOK()
	index := timeseries.Index{Keys: keys, Options: without(spec, "v", "key", "ns")}
	if d, ok := kept[name]; ok && (d.describes(present, index) || d.describes(wanted, index)) {
		own, _ := d.user.Options.Lookup("expireAfterSeconds").AsInt64OK()
		return own
	}
	seconds, _ := spec.Lookup("expireAfterSeconds").AsInt64OK()
	return seconds - present.Span()/1000
}

// setIndexExpiry changes the seconds after which an index deletes buckets. On a server that cannot change them it makes the index
// again.
func (s *series) setIndexExpiry(ctx context.Context, spec bson.Raw, seconds int64) error {
	name, _ := spec.Lookup("name").StringValueOK()
	err := s.modifyExpiry(ctx, name, seconds)
	if mongodb.HasCode(err, mongodb.CodeCommandNotFound, mongodb.CodeNotImplemented) {
		if err := s.dropByName(ctx, name); err != nil {
			return err
		}
		var anew bson.D
		if err := bson.Unmarshal(without(spec, "v", "ns", "expireAfterSeconds"), &anew); err != nil {
			return err
		}
		anew = append(anew, bson.E{Key: "expireAfterSeconds", Value: seconds})
		command := bson.D{{Key: "createIndexes", Value: s.buckets().Name()}, {Key: "indexes", Value: bson.A{anew}}}
		err = s.db.Translate(s.driver().RunCommand(ctx, command).Err())
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
	i := slices.IndexFunc(specs, func(spec bson.Raw) bool {
		have, _ := spec.Lookup("name").StringValueOK()
		return have == name
	})
	if i < 0 {
		return nil // It was dropped meanwhile.
	}
	seconds, _ := due.Options.Lookup("expireAfterSeconds").AsInt64OK()
	return s.setIndexExpiry(ctx, specs[i], seconds)
}
