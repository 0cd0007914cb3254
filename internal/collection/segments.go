package collection

import (
	"context"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/mongodb"
)

// Segments says whether measurements of slow series are written into segments first.
type Segments string

// The choices. Existing segments are shown and compacted with each of them.
const (
	SegmentsOff  Segments = "off"
	SegmentsAuto Segments = "auto" // for a time series without buckets yet, if a view can show segments
	SegmentsOn   Segments = "on"   // always
)

// beginsSegments reports whether this set-up begins segments in the time series.
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

// beginSegments begins segments in the time series. It makes the view that shows them, and then notes them in the definition, for
// good. If a right is missing for the view, the definition stays as it was. The indexes of segments are made before
// beginSegments, the first segment after it.
func (s *series) beginSegments(ctx context.Context) error {
	if err := s.arrangeView(ctx); mongodb.LacksRight(err) {
		return fmt.Errorf("the view that shows the segments cannot be created or changed: %w; %s, or set SEGMENTS=off", err, viewRights)
	} else if err != nil {
		return err
	}
	c := OptionsChange{Options: s.ports.Options, WriteTimeout: s.db.WriteTimeout(), Sleep: sleep}
	noted := c.noteSegments(ctx)
	if noted != nil && !errors.Is(noted, ErrChangedMeanwhile) {
		return noted
	}
	if err := s.define(ctx); err != nil || s.segments {
		return err // other starting consumers note it as well
	}
	return noted
}

var (
	errNoView = errors.New("MONGODB_VIEW=none")
	errBegun  = errors.New("the collection has buckets but no segments yet; set SEGMENTS=on to use segments")
)

// declinesSegments says why a time series has no segments unless SEGMENTS=on asks for them. Nil means that it may have segments.
// It declines them for an existing time series, because segments are for good and some consumers and readers may not know them.
// unknown means that the answer is not known now.
func (s *series) declinesSegments(ctx context.Context) (why, unknown error) {
	if why, unknown := s.hasBegun(ctx); why != nil || unknown != nil {
		return why, unknown
	}
	why, unknown = s.hidesSegments(ctx)
	if why != nil {
		why = fmt.Errorf("no view can show segments: %w", why)
	}
	return why, unknown
}

// postponedID is the _id of a note in the options collection. It says that segments were to begin before the first bucket, but a
// right was missing. They may begin later, because a missing right decides nothing for good.
const postponedID = "segments"

// postponeSegments continues without segments until a later start has the rights for them.
func (s *series) postponeSegments(ctx context.Context, refused error) error {
	if _, err := mongodb.Changed(s.ports.Options.Insert(ctx, []bson.Raw{mongodb.WithID(postponedID)})); err != nil {
		return mongodb.Failure("recording that consumers may use segments later", err)
	}
	s.db.Log().Warn("SEGMENTS=auto: measurements are written directly into buckets until a consumer starts with the rights that segments need",
		"collection", s.namespace(), "err", refused)
	return nil
}

// hasBegun returns an error in why if there are buckets already and segments were not just postponed.
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

// hidesSegments says why no possible view shows segments. Nil means that one does. The second error means that the answer is not
// known now.
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

// decideSegments decides whether to write new segments, after the view was arranged. It writes none if the view shows them
// wrongly.
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
