package collection

import (
	"context"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
)

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
	if _, err := allOf(ctx)(s.buckets().Aggregate(ctx, append(s.pipeline(kind), bson.D{{Key: "$limit", Value: 1}}))); err != nil {
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
