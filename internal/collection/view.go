package collection

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/mongodb"
)

// ViewKind says by which stages the view of a time series makes measurements of its buckets.
type ViewKind string

// The kinds of views. ViewAuto is only ever asked for, ViewForeign only ever found.
const (
	ViewAuto     ViewKind = "auto"     // the first of internal and portable that works; one that exists and works is kept
	ViewInternal ViewKind = "internal" // MongoDB's own stage, which is not documented and narrows filters to buckets
	ViewPortable ViewKind = "portable" // documented stages alone
	ViewNone     ViewKind = "none"     // no view
	ViewForeign  ViewKind = "foreign"  // a pipeline on the buckets that this program did not write
)

// existing is what has a name; kind is empty for nothing.
type existing struct {
	kind     string // "collection", "view", "timeseries"
	viewOn   string
	pipeline bson.RawValue
	engine   bson.RawValue // storageEngine: what the collection was made with; absent: nothing of its own
}

func (t TimeSeries) existing(ctx context.Context, name string) (existing, error) {
	var found []struct {
		Name    string `bson:"name"`
		Type    string `bson:"type"`
		Options struct {
			ViewOn   string        `bson:"viewOn"`
			Pipeline bson.RawValue `bson:"pipeline"`
			Engine   bson.RawValue `bson:"storageEngine"`
		} `bson:"options"`
	}
	cursor, err := t.driver().ListCollections(ctx, bson.D{{Key: "name", Value: name}})
	if err == nil {
		err = cursor.All(ctx, &found)
	}
	for _, c := range found {
		if c.Name == name {
			return existing{kind: cmp.Or(c.Type, "collection"), viewOn: c.Options.ViewOn, pipeline: c.Options.Pipeline, engine: c.Options.Engine}, nil
		}
	}
	return existing{}, mongodb.Failure("listing collections", t.db.Translate(err))
}

// isView reports whether it is a view of the buckets.
func (s *series) isView(e existing) bool { return e.kind == "view" && e.viewOn == s.buckets().Name() }

// refuseForeign refuses a name that something else has already: its readers would not find the measurements there.
func (s *series) refuseForeign(ctx context.Context) error {
	have, err := s.existing(ctx, s.name)
	if err != nil {
		return err
	}
	switch {
	case have.kind == "":
		return nil
	case have.kind != "view":
		return fmt.Errorf("a %s %q exists already: the name is needed for the view of the measurements; choose another MONGODB_COLLECTION",
			have.kind, s.name)
	case have.viewOn != s.buckets().Name():
		return fmt.Errorf("a view %q of %q exists already: choose another MONGODB_COLLECTION", s.name, have.viewOn)
	}
	return nil
}

// pipeline is the pipeline of a view of the kind, with the present options.
func (s *series) pipeline(kind ViewKind) bson.A {
	return viewPipeline(kind, s.options, s.segments, s.buckets().Name())
}

// kindOf tells what a view of the buckets is made of, with segments or without. A portable one of other options, or of another
// version of this program, is foreign: it is replaced like any other.
func (s *series) kindOf(e existing) ViewKind {
	if ownStages(e.pipeline) != nil {
		return ViewInternal
	}
	for _, segments := range []bool{false, true} {
		if same, err := samePipeline(e, viewPipeline(ViewPortable, s.options, segments, s.buckets().Name())); err == nil && same {
			return ViewPortable
		}
	}
	return ViewForeign
}

func samePipeline(e existing, want bson.A) (bool, error) {
	_, encoded, err := bson.MarshalValue(want)
	if err != nil {
		return false, fmt.Errorf("encoding the view: %w", err)
	}
	return bytes.Equal(e.pipeline.Value, encoded), nil
}

// arrangeView makes the view of the measurements what Options.View asks for. Only starting consumers do it: running ones,
// whose settings may differ, leave the kind alone.
func (s *series) arrangeView(ctx context.Context) error {
	have, err := s.existing(ctx, s.name)
	s.view = ""
	if err != nil {
		return err
	}
	s.shown, s.blind = s.showsSegments(have) && s.settings.View != ViewNone, s.isBlind(have)
	if s.settings.View == ViewNone {
		return s.dropView(ctx, have)
	}
	kind, why, err := s.chooseView(ctx, have)
	switch {
	case err != nil:
		return err
	case kind != ViewNone:
		if err := s.makeView(ctx, have, kind); err != nil {
			return err
		}
		s.shown, s.blind, s.view = true, false, kind
		return nil
	}
	s.shown = false
	if s.settings.View != ViewAuto {
		return fmt.Errorf("MONGODB_VIEW=%s: %w; set MONGODB_VIEW=auto for the view that this MongoDB can have, or none", s.settings.View, why)
	}
	s.db.Log().Info("there is no view of the measurements: "+strings.ReplaceAll(why.Error(), "\n", "; "), "collection", s.namespace())
	if s.isBlind(have) {
		return s.dropOurs(ctx, "it does not show segments rightly")
	}
	return nil
}

// viewRights says who may make the view what it should be, and what to do without.
const viewRights = "grant the role dbAdmin, whose collMod changes a view, or readWrite, which drops a view and creates it anew; or set MONGODB_VIEW=none"

// arrangeOptionalView is arrangeView where the time series can do without what it would change: a missing right is said, and the view
// left as it is. A view that is asked for by name is not optional.
func (s *series) arrangeOptionalView(ctx context.Context) error {
	err := s.arrangeView(ctx)
	switch {
	case !mongodb.LacksRight(err):
		return err
	case s.settings.View != ViewAuto && s.settings.View != ViewNone:
		return fmt.Errorf("MONGODB_VIEW=%s: %w; %s", s.settings.View, err, viewRights)
	}
	s.db.Log().Warn("the view of the measurements is left as it is: a right is missing", "collection", s.namespace(), "err", err, "way_out", viewRights)
	return nil
}

// dropView drops a view that this program made.
func (s *series) dropView(ctx context.Context, have existing) error {
	if !s.isView(have) {
		return nil
	}
	if kind := s.kindOf(have); kind == ViewForeign {
		s.db.Log().Info("MONGODB_VIEW=none leaves the view alone: its pipeline is not one of ours", "collection", s.namespace())
		return nil
	}
	return s.dropOurs(ctx, "MONGODB_VIEW=none")
}

// isBlind reports whether a view is one of ours that knows nothing of segments, where there may be some: it shows measurements twice.
func (s *series) isBlind(e existing) bool {
	return s.segments && s.isView(e) && s.kindOf(e) != ViewForeign && !s.showsSegments(e)
}

func (s *series) dropOurs(ctx context.Context, why string) error {
	if err := s.driver().Collection(s.name).Drop(ctx); err != nil {
		return mongodb.Failure("dropping the view", s.db.Translate(err))
	}
	s.blind = false
	s.db.Log().Info("dropped the view of the measurements: "+why, "collection", s.namespace())
	return nil
}

// chooseView is the first kind that works of those that may be; ViewNone, and why: none does.
func (s *series) chooseView(ctx context.Context, have existing) (ViewKind, error, error) {
	var refusals []error
	for _, kind := range s.candidates(have) {
		refusal, err := s.tryView(ctx, kind, have)
		if refusal != nil && s.isView(have) && s.kindOf(have) == kind {
			refusal, err = s.tryView(ctx, kind, have) // It has worked: only a refusal that comes twice replaces it, and that for good.
		}
		switch {
		case err != nil:
			return "", nil, err
		case refusal == nil:
			return kind, nil, nil
		}
		refusals = append(refusals, fmt.Errorf("this MongoDB has no %s view (%w)", kind, refusal))
	}
	return ViewNone, errors.Join(refusals...), nil
}

// candidates are the kinds that may be, the best first. What exists is the best as long as it works: a view does not change
// from one start to the next because a probe happened to fail once.
func (s *series) candidates(have existing) []ViewKind {
	switch {
	case s.settings.View != ViewAuto:
		return []ViewKind{s.settings.View}
	case s.isView(have) && s.kindOf(have) == ViewPortable:
		return []ViewKind{ViewPortable, ViewInternal}
	}
	return []ViewKind{ViewInternal, ViewPortable}
}

// makeView makes the view, or an existing one what it should be.
func (s *series) makeView(ctx context.Context, have existing, kind ViewKind) error {
	if have.kind == "" {
		made, err := s.createView(ctx, s.pipeline(kind))
		if made || err != nil {
			return err
		}
		if have, err = s.existing(ctx, s.name); err != nil || have.kind == "" { // another consumer was quicker
			return err
		}
	}
	return s.widest(have).updateView(ctx, have, kind)
}

// widest is the time series with all that an existing view shows: whoever raises the span widens the view first, and whoever begins
// segments makes it show them first.
func (s *series) widest(have existing) *series {
	wide := *s
	wide.options.MaxSpanSeconds = max(wide.options.MaxSpanSeconds, s.viewSpan(have))
	wide.segments = wide.segments || s.showsSegments(have)
	return &wide
}

// createView makes the view. False means that the name is taken.
func (s *series) createView(ctx context.Context, pipeline bson.A) (bool, error) {
	err := s.db.Translate(s.driver().CreateView(ctx, s.name, s.buckets().Name(), pipeline))
	refused := (*mongodb.CommandError)(nil)
	if errors.As(err, &refused) && refused.Code == mongodb.CodeNamespaceExists {
		return false, nil
	}
	return err == nil, mongodb.Failure("creating the view", err)
}

// updateView gives an older view the present pipeline.
func (s *series) updateView(ctx context.Context, have existing, kind ViewKind) error {
	pipeline := s.pipeline(kind)
	if same, err := samePipeline(have, pipeline); same || err != nil {
		return err
	}
	err := mongodb.Failure("changing the view", s.modify(ctx, s.name, bson.E{Key: "viewOn", Value: s.buckets().Name()}, bson.E{Key: "pipeline", Value: pipeline}))
	if mongodb.LacksRight(err) {
		return s.replaceView(ctx, pipeline, err)
	}
	return err
}

// replaceTries bounds how often a view is dropped and created anew while other consumers do the same.
const replaceTries = 5

// replaceView drops the view and creates it anew, for a user who may do that and not change it. Queries in between find nothing. The
// right to create is tried on the name first, as long as it is taken: without it there would be no view.
func (s *series) replaceView(ctx context.Context, pipeline bson.A, unchanged error) error {
	for range replaceTries {
		made, err := s.createView(ctx, pipeline)
		if made || err != nil {
			return orElse(unchanged, err)
		}
		if err := s.dropOurs(ctx, "this user may not change it (collMod), and it is created anew"); err != nil {
			return orElse(unchanged, err)
		}
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), s.db.WriteTimeout()) // an interruption leaves no gap
		defer cancel()
	}
	return unchanged
}

// orElse is the error of a second way to do something, after the first was refused: both of them where that was refused, too.
func orElse(first, second error) error {
	if mongodb.LacksRight(second) {
		return fmt.Errorf("%w; %w", first, second)
	}
	return second
}
