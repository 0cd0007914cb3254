package sink

import (
	"context"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Segments says whether what arrives for slow series is written into segments first.
type Segments string

// The choices. Segments that are there are shown and settled with any of them.
const (
	SegmentsOff  Segments = "off"
	SegmentsAuto Segments = "auto" // in a time series that has no bucket yet, where a view can show them
	SegmentsOn   Segments = "on"   // always
)

// beginSegments makes the time series one that has segments, where that is asked for: it notes it in the definition. The view
// that shows them, the index and the first segment come after that, in this order.
func (s *series) beginSegments(ctx context.Context) error {
	if s.segments || s.o.Segments == SegmentsOff {
		return nil
	}
	if s.o.Segments == SegmentsAuto {
		why, err := s.declinesSegments(ctx)
		if err != nil {
			return err
		}
		if why != nil {
			s.log.Info("SEGMENTS=auto: measurements are written into buckets at once", "collection", s.namespace(), "why", why)
			return nil
		}
	}
	c := OptionsChange{Options: s.ports.Options, WriteTimeout: s.o.WriteTimeout, Sleep: sleep}
	noted := c.NoteSegments(ctx)
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

// declinesSegments tells why a time series does without segments unless they are asked for by name; nil: it does not. What is
// there already is left as it is: segments are for good, and there may be consumers and readers that do not know them. The
// second error tells that it is not known now.
func (s *series) declinesSegments(ctx context.Context) (why, unknown error) {
	bucket, err := first(ctx, s.ports.Buckets, Query{Filter: document(bson.D{}), Projection: document(bson.D{{Key: "_id", Value: 1}})})
	switch {
	case err != nil:
		return nil, failure("looking for a bucket", err)
	case bucket != nil:
		return errBegun, nil
	}
	why, err = s.hidesSegments(ctx)
	if why != nil {
		why = fmt.Errorf("no view could show segments: %w", why)
	}
	return why, err
}

// hidesSegments tells why no view that may be made shows segments; nil: one does. The second error tells that it is not known now.
func (s *series) hidesSegments(ctx context.Context) (why, unknown error) {
	if s.o.View == ViewNone {
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

// decideSegments says whether new segments are written, once it is known whether the view shows them.
func (s *series) decideSegments() {
	s.filling = s.segments && s.o.Segments != SegmentsOff && (s.shown || s.o.Segments == SegmentsOn)
	switch {
	case s.filling && !s.shown:
		s.log.Warn("no view shows segments: only `consumer query` and the package reader find what is not in buckets yet",
			"collection", s.namespace())
	case s.segments && !s.filling && s.o.Segments == SegmentsAuto:
		s.log.Info("SEGMENTS=auto: measurements are written into buckets at once, since no view shows segments", "collection", s.namespace())
	}
}
