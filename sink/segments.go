package sink

import (
	"context"
	"errors"
)

// Segments says whether what arrives for slow series is written into segments first.
type Segments string

// The choices. Segments that are there are shown and settled with any of them.
const (
	SegmentsOff  Segments = "off"
	SegmentsAuto Segments = "auto" // where a view can show them
	SegmentsOn   Segments = "on"   // always
)

// beginSegments makes the time series one that has segments, where that is asked for: it notes it in the definition. The view
// that shows them, the index and the first segment come after that, in this order.
func (s *series) beginSegments(ctx context.Context) error {
	if s.segments || s.o.Segments == SegmentsOff {
		return nil
	}
	if s.o.Segments == SegmentsAuto {
		why, err := s.hidesSegments(ctx)
		if err != nil {
			return err
		}
		if why != nil {
			s.log.Info("SEGMENTS=auto: measurements are written into buckets at once, since no view could show segments",
				"collection", s.namespace(), "why", why)
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

// errNoView: the settings ask for no view.
var errNoView = errors.New("MONGODB_VIEW=none")

// hidesSegments tells why no view that may be made shows segments; nil: one does. The error tells that it is not known now.
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
