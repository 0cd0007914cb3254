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

// ViewKind says which stages of the view turn buckets into measurements.
type ViewKind string

// The kinds of views. ViewAuto can only be wanted, ViewForeign can only be found.
const (
	ViewAuto     ViewKind = "auto"     // the first of internal and portable that works; a working existing view is kept
	ViewInternal ViewKind = "internal" // MongoDB's own undocumented stage, which narrows filters to buckets
	ViewPortable ViewKind = "portable" // documented stages only
	ViewNone     ViewKind = "none"     // no view
	ViewForeign  ViewKind = "foreign"  // a pipeline on the buckets that this program did not write
)

// existing is the present object with a name. An empty kind means that there is none.
type existing struct {
	kind     string // "collection", "view", "timeseries"
	viewOn   string
	pipeline bson.RawValue
	engine   bson.RawValue // storageEngine of the collection; absent if it was made without one
}

func (t TimeSeries) existing(ctx context.Context, name string) (existing, error) {
	type object struct {
		Name    string `bson:"name"`
		Type    string `bson:"type"`
		Options struct {
			ViewOn   string        `bson:"viewOn"`
			Pipeline bson.RawValue `bson:"pipeline"`
			Engine   bson.RawValue `bson:"storageEngine"`
		} `bson:"options"`
	}
	found, err := allOf[object](ctx)(t.driver().ListCollections(ctx, bson.D{{Key: "name", Value: name}}))
	for _, c := range found {
		if c.Name == name {
			return existing{kind: cmp.Or(c.Type, "collection"), viewOn: c.Options.ViewOn, pipeline: c.Options.Pipeline, engine: c.Options.Engine}, nil
		}
	}
	return existing{}, mongodb.Failure("listing collections", t.db.Translate(err))
}

// isView reports whether e is a view of the buckets.
func (s *series) isView(e existing) bool { return e.kind == "view" && e.viewOn == s.buckets().Name() }

// refuseForeign refuses a name that something else has already, because its readers would not find the measurements there.
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

// pipeline returns the pipeline of a view of the kind, with the present options.
func (s *series) pipeline(kind ViewKind) bson.A {
	return viewPipeline(kind, s.options, s.segments, s.buckets().Name())
}

// kindOf finds out the kind of a view of the buckets, with or without segments. A portable view of other options, or of another
// version of this program, counts as foreign. It is replaced like any other.
func (s *series) kindOf(e existing) ViewKind {
	if ownStages(e.pipeline) != nil {
		return ViewInternal
	}
	for _, segments := range []bool{false, true} {
		if e.hasPipeline(viewPipeline(ViewPortable, s.options, segments, s.buckets().Name())) {
			return ViewPortable
		}
	}
	return ViewForeign
}

// hasPipeline reports whether a view has exactly these stages.
func (e existing) hasPipeline(want bson.A) bool {
	return bytes.Equal(e.pipeline.Value, mongodb.Document(bson.D{{Key: "pipeline", Value: want}}).Lookup("pipeline").Value)
}

// arrangeView makes the view that Settings.View asks for. Only starting consumers do so. Running consumers may have other
// settings and leave the kind alone.
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
		return fmt.Errorf("MONGODB_VIEW=%s: %w; set MONGODB_VIEW=auto to get a view that this MongoDB supports, or MONGODB_VIEW=none", s.settings.View, why)
	}
	s.log().Info("there is no view of the measurements: " + strings.ReplaceAll(why.Error(), "\n", "; "))
	if s.isBlind(have) {
		return s.dropOurs(ctx, "it does not show segments correctly")
	}
	return nil
}

// viewRights says which rights let a user arrange the view, and how to do without them.
const viewRights = "grant the role dbAdmin (it can change the view with collMod) or readWrite (it can drop the view and create it again); or set MONGODB_VIEW=none"

// arrangeOptionalView is arrangeView for a time series that can do without the change. It logs a missing right and leaves the
// view as it is. A view that the settings ask for by name is not optional.
func (s *series) arrangeOptionalView(ctx context.Context) error {
	err := s.arrangeView(ctx)
	switch {
	case !mongodb.LacksRight(err):
		return err
	case s.settings.View != ViewAuto && s.settings.View != ViewNone:
		return fmt.Errorf("MONGODB_VIEW=%s: %w; %s", s.settings.View, err, viewRights)
	}
	s.log().Warn("the view of the measurements was not changed: a right is missing", "err", err, "way_out", viewRights)
	return nil
}

// dropView drops a view that this program made.
func (s *series) dropView(ctx context.Context, have existing) error {
	if !s.isView(have) {
		return nil
	}
	if kind := s.kindOf(have); kind == ViewForeign {
		s.log().Info("the view is kept although MONGODB_VIEW=none, because waterwheel did not write the view's aggregation pipeline")
		return nil
	}
	return s.dropOurs(ctx, "MONGODB_VIEW=none")
}

// isBlind reports whether e is a view of ours that does not know segments although there may be some. Such a view shows
// measurements twice.
func (s *series) isBlind(e existing) bool {
	return s.segments && s.isView(e) && s.kindOf(e) != ViewForeign && !s.showsSegments(e)
}

func (s *series) dropOurs(ctx context.Context, why string) error {
	if err := s.driver().Collection(s.name).Drop(ctx); err != nil {
		return mongodb.Failure("dropping the view", s.db.Translate(err))
	}
	s.blind = false
	s.log().Info("dropped the view of the measurements: " + why)
	return nil
}

// chooseView returns the first candidate that works. If none works, it returns ViewNone and the reasons.
func (s *series) chooseView(ctx context.Context, have existing) (ViewKind, error, error) {
	var refusals []error
	for _, kind := range s.candidates(have) {
		refusal, err := s.tryView(ctx, kind, have)
		if refusal != nil && s.isView(have) && s.kindOf(have) == kind {
			// An existing view has worked before, so only a refusal that comes twice replaces it.
			refusal, err = s.tryView(ctx, kind, have)
		}
		switch {
		case err != nil:
			return "", nil, err
		case refusal == nil:
			return kind, nil, nil
		}
		refusals = append(refusals, fmt.Errorf("this MongoDB does not support the %s view (%w)", kind, refusal))
	}
	return ViewNone, errors.Join(refusals...), nil
}

// candidates returns the possible kinds, the best first. An existing view comes first. Otherwise one failed probe could change
// the view from one start to the next.
func (s *series) candidates(have existing) []ViewKind {
	switch {
	case s.settings.View != ViewAuto:
		return []ViewKind{s.settings.View}
	case s.isView(have) && s.kindOf(have) == ViewPortable:
		return []ViewKind{ViewPortable, ViewInternal}
	}
	return []ViewKind{ViewInternal, ViewPortable}
}

// makeView makes the view, or updates an existing one.
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

// widest returns the time series with everything that an existing view shows. A process that raises the span widens the view
// first. A process that begins segments first makes the view show them.
func (s *series) widest(have existing) *series {
	wide := *s
	wide.options.MaxSpanSeconds = max(wide.options.MaxSpanSeconds, s.viewSpan(have))
	wide.segments = wide.segments || s.showsSegments(have)
	return &wide
}

// createView makes the view. False means that the name is taken.
func (s *series) createView(ctx context.Context, pipeline bson.A) (bool, error) {
	err := s.db.Translate(s.driver().CreateView(ctx, s.name, s.buckets().Name(), pipeline))
	if mongodb.HasCode(err, mongodb.CodeNamespaceExists) {
		return false, nil
	}
	return err == nil, mongodb.Failure("creating the view", err)
}

// updateView gives an existing view the present pipeline.
func (s *series) updateView(ctx context.Context, have existing, kind ViewKind) error {
	pipeline := s.pipeline(kind)
	if have.hasPipeline(pipeline) {
		return nil
	}
	err := mongodb.Failure("changing the view", s.modify(ctx, s.name, bson.E{Key: "viewOn", Value: s.buckets().Name()}, bson.E{Key: "pipeline", Value: pipeline}))
	if mongodb.LacksRight(err) {
		return s.replaceView(ctx, pipeline, err)
	}
	return err
}

// replaceTries bounds how often replaceView drops and creates the view while other consumers do the same.
const replaceTries = 5

// replaceView drops the view and creates it again, for a user who may do that but not change it. Queries in between find nothing.
// It first tries the right to create on the name that is still taken. Without that right there would be no view afterwards.
func (s *series) replaceView(ctx context.Context, pipeline bson.A, unchanged error) error {
	for range replaceTries {
		made, err := s.createView(ctx, pipeline)
		if !made && err == nil {
			err = s.dropOurs(ctx, "this user may not change it (collMod), so it is created again")
		}
		switch {
		case mongodb.LacksRight(err):
			return fmt.Errorf("%w; %w", unchanged, err)
		case made || err != nil:
			return err
		}
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), s.db.WriteTimeout()) // an interruption leaves no gap
		defer cancel()
	}
	return unchanged
}

// ViewState is the present view of a time series.
type ViewState struct {
	Kind ViewKind `json:"kind"` // internal, portable, foreign or none
	Why  string   `json:"why"`  // one clause, for people
}

// View returns the present view of the time series and the reason for it. asked is the kind that the settings ask for. View only
// reads. It returns ErrNotSetUp if there is no such time series.
func (t TimeSeries) View(ctx context.Context, asked ViewKind) (ViewState, error) {
	s := t.series()
	s.settings.View = asked
	definition, err := ReadDefinition(ctx, s.ports.Options)
	if err != nil {
		return ViewState{}, err
	}
	s.options, s.segments = definition.Options, definition.Segments
	have, err := s.existing(ctx, s.name)
	if err != nil {
		return ViewState{}, err
	}
	kind := ViewNone
	if s.isView(have) {
		kind = s.kindOf(have)
	}
	if s.isBlind(have) {
		return ViewState{Kind: kind, Why: "it shows some measurements twice, because it does not support segments: running consumers replace it within a minute"}, nil
	}
	why, err := s.whyView(ctx, kind)
	return ViewState{Kind: kind, Why: why}, err
}

func (s *series) whyView(ctx context.Context, kind ViewKind) (string, error) {
	switch {
	case kind == ViewForeign:
		return "its pipeline was written by another version or program: the next start replaces it, unless MONGODB_VIEW=none", nil
	case kind == ViewNone && s.settings.View == ViewNone:
		return "MONGODB_VIEW=none", nil
	}
	refused, err := s.refusesStages(ctx, ViewInternal)
	switch {
	case err != nil:
		return "", err
	case kind == ViewInternal && refused != nil:
		return fmt.Sprintf("this MongoDB does not run the stage of this view, so the view cannot be read: %v; `waterwheel init` replaces it", refused), nil
	case kind == ViewInternal:
		return "MongoDB's own stage, which this server runs: filters on time and meta read only the buckets they need", nil
	case kind == ViewPortable && refused != nil:
		return fmt.Sprintf("documented stages, because this MongoDB does not run the stage of the internal view: %v", refused), nil
	case kind == ViewPortable && s.settings.View == ViewPortable:
		return "documented stages, as MONGODB_VIEW=portable asks: every filter reads all buckets", nil
	case kind == ViewPortable:
		return "documented stages: the existing view works and is kept; MONGODB_VIEW=internal would replace it", nil
	case refused == nil:
		return "no view was created, or this MongoDB has no views: `waterwheel init` tries to create one and says why it cannot", nil
	}
	if portable, err := s.refusesStages(ctx, ViewPortable); err != nil || portable != nil {
		return fmt.Sprintf("this MongoDB runs neither the stages of the internal view nor those of the portable view: %v; %v", refused, portable), err
	}
	return "this MongoDB has no views, or none was created: `waterwheel init` tries to create one and says why it cannot", nil
}

// refusesStages says why the server does not run the stages of this kind on the buckets. Nil means that it runs them.
func (s *series) refusesStages(ctx context.Context, kind ViewKind) (refusal, unknown error) {
	if _, err := allOf[bson.Raw](ctx)(s.buckets().Aggregate(ctx, append(s.pipeline(kind), bson.D{{Key: "$limit", Value: 1}}))); err != nil {
		return s.refusal("trying the stages of a view", err)
	}
	return nil, nil
}

// MendView replaces a view that does not know segments by one that shows them, if there may be some. It reports whether it did. A
// consumer of a former version does not start if there are segments. But if it read the definition before they began, it may
// still have made the old view afterwards.
func (t TimeSeries) MendView(ctx context.Context) (bool, error) {
	s := t.series()
	mended := false
	for {
		definition, err := ReadDefinition(ctx, s.ports.Options)
		if err != nil {
			return mended, err
		}
		if mended && definition.Options == s.options {
			return mended, nil
		}
		s.options, s.segments = definition.Options, definition.Segments
		have, err := s.existing(ctx, s.name)
		if err != nil {
			return mended, err
		}
		if !s.isBlind(have) && (!mended || !s.showsSegments(have)) {
			return mended, nil
		}
		if err := s.makeView(ctx, have, s.kindOf(have)); err != nil {
			return mended, err
		}
		mended = true // check again, because the options may have changed meanwhile
	}
}
