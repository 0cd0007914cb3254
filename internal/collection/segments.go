package collection

import (
	"context"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/mongodb"
)

// Segments says whether what arrives for slow series is written into segments first.
type Segments string

// The choices. Segments that are there are shown and compacted with any of them.
const (
	SegmentsOff  Segments = "off"
	SegmentsAuto Segments = "auto" // in a time series that has no bucket yet, where a view can show them
	SegmentsOn   Segments = "on"   // always
)

// beginsSegments reports whether the time series is to become one that has segments.
func (s *series) beginsSegments(ctx context.Context) (bool, error) {
	if s.segments || s.settings.Segments == SegmentsOff || s.rollupOf != "" {
		return false, nil
	}
	if s.settings.Segments == SegmentsOn {
		return true, nil
	}
	why, err := s.declinesSegments(ctx)
	if err != nil {
		return false, err
	}
	if why != nil {
		s.db.Log().Info("SEGMENTS=auto: measurements are written directly into buckets", "collection", s.namespace(), "why", why)
	}
	return why == nil, nil
}

// beginSegments makes the time series one that has segments: it makes the view that shows them, and then notes them in the definition,
// for good. What a missing right does not let it make leaves the definition as it was. The index comes before
// it, the first segment after it.
func (s *series) beginSegments(ctx context.Context) error {
	if err := s.arrangeView(ctx); mongodb.LacksRight(err) {
		return fmt.Errorf("segments cannot begin without a view that shows them: %w; %s, or SEGMENTS=off", err, viewRights)
	} else if err != nil {
		return err
	}
	c := OptionsChange{Options: s.ports.Options, WriteTimeout: s.db.WriteTimeout(), Sleep: sleep}
	noted := c.noteSegments(ctx)
	if noted != nil && !errors.Is(noted, ErrChangedMeanwhile) {
		return noted
	}
	if err := s.define(ctx); err != nil || s.segments {
		return err // others that start note it as well
	}
	return noted
}

var (
	errNoView = errors.New("MONGODB_VIEW=none")
	errBegun  = errors.New("it has buckets and never had segments; SEGMENTS=on gives it them")
)

// declinesSegments tells why a time series does without segments unless they are asked for by name. Nil means that it does not. An
// existing time series is left as it is: segments are for good, and there may be consumers and readers that do not know them. The
// second error tells that it is not known now.
func (s *series) declinesSegments(ctx context.Context) (why, unknown error) {
	if why, unknown := s.hasBegun(ctx); why != nil || unknown != nil {
		return why, unknown
	}
	why, unknown = s.hidesSegments(ctx)
	if why != nil {
		why = fmt.Errorf("no view could show segments: %w", why)
	}
	return why, unknown
}

// postponedID is the _id of a note beside the options: segments were to begin before there was any bucket, and a right was missing.
// They may begin later. What a user may not do today decides nothing for good.
const postponedID = "segments"

// postponeSegments goes on without segments until a later start has the rights that they need.
func (s *series) postponeSegments(ctx context.Context, refused error) error {
	if _, err := mongodb.Changed(s.ports.Options.Insert(ctx, []bson.Raw{mongodb.WithID(postponedID)})); err != nil {
		return mongodb.Failure("noting that segments may begin later", err)
	}
	s.db.Log().Warn("SEGMENTS=auto: measurements are written directly into buckets, until a start has the rights that segments need",
		"collection", s.namespace(), "err", refused)
	return nil
}

// hasBegun tells by an error whether there are buckets already, and segments were not only postponed.
func (s *series) hasBegun(ctx context.Context) (why, unknown error) {
	has := func(c mongodb.Collection, filter bson.Raw) bool {
		found, err := mongodb.First(ctx, c, mongodb.Query{Filter: filter, Projection: mongodb.Document(bson.D{{Key: "_id", Value: 1}})})
		if err != nil && unknown == nil {
			unknown = mongodb.Failure("looking for a bucket", err)
		}
		return found != nil
	}
	if has(s.ports.Buckets, mongodb.Document(bson.D{})) && !has(s.ports.Options, mongodb.WithID(postponedID)) {
		why = errBegun
	}
	return why, unknown
}

// hidesSegments tells why no view that may be made shows segments. Nil means that one does. The second error tells that it is not known now.
func (s *series) hidesSegments(ctx context.Context) (why, unknown error) {
	if s.settings.View == ViewNone {
		return errNoView, nil
	}
	have, err := s.existing(ctx, s.name)
	if err != nil {
		return nil, err
	}
	with := *s
	with.segments = true
	_, why, err = with.chooseView(ctx, have)
	return why, err
}

// decideSegments says whether new segments are written, once it is known whether the view shows them. Where a view shows them wrongly,
// none are.
func (s *series) decideSegments() {
	s.filling = s.segments && s.settings.Segments != SegmentsOff && !s.blind && (s.shown || s.settings.Segments == SegmentsOn)
	switch {
	case s.blind && s.settings.Segments != SegmentsOff:
		s.db.Log().Warn("the view does not support segments: measurements are written directly into buckets",
			"collection", s.namespace(), "way_out", viewRights)
	case s.filling && !s.shown:
		s.db.Log().Warn("no view shows segments: only `waterwheel query` and the package reader find measurements that are not in buckets yet",
			"collection", s.namespace())
	case s.segments && !s.filling && s.settings.Segments == SegmentsAuto:
		s.db.Log().Info("SEGMENTS=auto: measurements are written directly into buckets, since no view shows segments", "collection", s.namespace())
	}
}
