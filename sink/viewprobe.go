package sink

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"waterwheel/internal/mongodb"
	"waterwheel/internal/timeseries"
	"waterwheel/internal/words"
)

// tryView tells by a refusal why the server does not make measurements by the stages of this kind as this program does. Nil means that it
// does. A bucket with sparse columns is read through the stages, and with it, where the time series has segments, some that are
// shown now and some that are not. They stand in the pipeline itself, so that nothing is written. The error tells that it is not
// known now.
func (s *series) tryView(ctx context.Context, kind ViewKind, have existing) (refusal, err error) {
	probes, err := s.probes(ctx)
	if err != nil {
		return nil, err
	}
	documents := make(bson.A, len(probes))
	var want []bson.Raw
	for i, p := range probes {
		document, err := p.document(s.options)
		if err != nil {
			return nil, err
		}
		documents[i] = document
		if p.hidden {
			continue
		}
		measurements, err := unpacked(s.options, document)
		if err != nil {
			return nil, err
		}
		want = append(want, measurements...)
	}
	got, err := s.readProbes(ctx, documents, kind, have)
	if err != nil {
		return s.refusal("trying a view", err)
	}
	if len(probes) > 1 { // the order of documents, and of the view's parts, is nobody's
		slices.SortFunc(got, slices.Compare[bson.Raw])
		slices.SortFunc(want, slices.Compare[bson.Raw])
	}
	return compareMeasurements(got, want), nil
}

// readProbes reads documents through the stages of a view: in place of the options document, of which there is one. Where there is
// no view yet, they are read through a view made for it, since a server may know the stages and no views.
func (s *series) readProbes(ctx context.Context, documents bson.A, kind ViewKind, have existing) ([]bson.Raw, error) {
	const field = "probe"
	in := bson.A{
		bson.D{{Key: stageMatch, Value: bson.D{{Key: "_id", Value: timeseries.DefinitionID}}}},
		bson.D{{Key: "$project", Value: bson.D{{Key: "_id", Value: 0}, {Key: field, Value: literal(documents)}}}},
		bson.D{{Key: "$unwind", Value: "$" + field}},
		bson.D{{Key: "$replaceRoot", Value: bson.D{{Key: "newRoot", Value: "$" + field}}}},
	}
	scratch := s.driver().Collection(s.name + timeseries.OptionsSuffix)
	pipeline := slices.Concat(in, unpackingStages(kind, s.options))
	if s.segments {
		pipeline = unionPipeline(kind, s.options, scratch.Name(), in)
	}
	if have.kind != "view" {
		if all, err := s.throughView(ctx, scratch.Name(), pipeline); !mongodb.LacksRight(s.db.Translate(err)) {
			return all, err
		} // a server that knows rights has views: whether the user may make one, shows when it is made
	}
	return allOf(ctx)(scratch.Aggregate(ctx, pipeline))
}

// refusal sorts an error out: it tells something of the server, or nothing. A missing right tells nothing of the server.
func (s *series) refusal(doing string, err error) (refusal, unknown error) {
	err = s.db.Translate(err)
	if refused := (*mongodb.CommandError)(nil); errors.As(err, &refused) && !mongodb.Passes(refused.Code) && !mongodb.LacksRight(refused) {
		return refused, nil
	}
	return nil, mongodb.Failure(doing, err)
}

// throughView reads all documents of a view that is made for it and dropped again. What may not be dropped is not made: the right to
// drop is tried first.
func (s *series) throughView(ctx context.Context, on string, pipeline bson.A) ([]bson.Raw, error) {
	view := s.driver().Collection("waterwheel.probe-" + rand.Text()[:8]) // short: the names of a time series may be as long as MongoDB allows
	if err := view.Drop(ctx); err != nil {
		return nil, err
	}
	if err := s.driver().CreateView(ctx, view.Name(), on, pipeline); err != nil {
		return nil, err
	}
	defer func() { _ = view.Drop(context.WithoutCancel(ctx)) }() // some servers make a collection of it
	return allOf(ctx)(view.Find(ctx, bson.D{}))
}

// allOf reads a cursor to its end.
func allOf(ctx context.Context) func(*mongo.Cursor, error) ([]bson.Raw, error) {
	return func(cursor *mongo.Cursor, err error) (all []bson.Raw, _ error) {
		if err != nil {
			return nil, err
		}
		return all, cursor.All(ctx, &all)
	}
}

// unpacked are the measurements of a bucket as a view shows them: the time, the meta unless it is absent, the other fields.
func unpacked(o timeseries.Options, bucket bson.Raw) (all []bson.Raw, err error) {
	u := timeseries.NewUnpacker(o)
	if err := u.Reset(bucket); err != nil {
		return nil, err
	}
	var m timeseries.Unpacked
	for u.Next(&m) {
		head := bson.D{{Key: o.TimeField, Value: bson.DateTime(m.Time)}}
		if m.Meta.Type != 0 {
			head = append(head, bson.E{Key: o.MetaField, Value: m.Meta})
		}
		d := mongodb.Document(head)
		d = append(append(d[:len(d)-1], m.Elements...), 0)
		d[0], d[1], d[2], d[3] = byte(len(d)), byte(len(d)>>8), byte(len(d)>>16), byte(len(d)>>24)
		all = append(all, d)
	}
	return all, u.Err()
}

// compareMeasurements tells in what the server's measurements differ from the right ones; their order is the bucket's.
func compareMeasurements(got, want []bson.Raw) error {
	if len(got) != len(want) {
		return fmt.Errorf("it shows %s of %d", words.Count(len(got), "measurement"), len(want))
	}
	for i := range want {
		if !bytes.Equal(got[i], want[i]) {
			return fmt.Errorf("it makes %v of a measurement %v", got[i], want[i])
		}
	}
	return nil
}
