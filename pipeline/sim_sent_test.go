package pipeline_test

import (
	"bytes"
	"errors"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/bucketer"
	"waterwheel/internal/claim"
	"waterwheel/internal/timeseries"
	"waterwheel/pipeline"
)

// sentWrites follow what a worker sends since its D was read. The writes are copies: the worker's are used again.
type sentWrites struct {
	of     map[timeseries.Position]*bucketer.Write // in which write a position was sent
	open   map[bson.ObjectID]*bucketer.Write       // sent and not resolved
	acting []*bucketer.Write                       // what the action under way is about
}

// sending: a position goes into one write only (E3), and a bucket gets no other write while one is unknown (E4).
func (s *sentWrites) sending(w *world, writes []*bucketer.Write) {
	if s.of == nil {
		s.of, s.open = map[timeseries.Position]*bucketer.Write{}, map[bson.ObjectID]*bucketer.Write{}
	}
	s.acting = nil
	for _, sent := range writes {
		x := s.open[sent.ID]
		if x == nil {
			x = copyOf(sent)
			s.open[sent.ID] = x
		} else if !isSame(x, sent) {
			w.fail("E4", "bucket %s gets another write while one is unknown", x.ID.Hex())
		}
		s.acting = append(s.acting, x)
		for _, p := range positionsOf(x) {
			if other := s.of[p]; other != nil && other != x {
				w.fail("E3", "offset %d part %d is sent in a second write", p.Offset, p.Part)
			}
			s.of[p] = x
		}
	}
}

// toldUnsent: a write that is told as not executed was not handed over, or refused before anything was done (E4).
func (c *checks) toldUnsent(w *world, t *task, writes []*bucketer.Write, sent []bucketer.Sent) {
	for i := range sent {
		if sent[i].Result == bucketer.NotExecuted && t.handed[string(writes[i].ID[:])] && (w.broken == "" || w.broken == sentAsUnsent) {
			w.fail("E4", "a write to bucket %s was sent, and is told as not executed: %v", writes[i].ID.Hex(), sent[i].Err)
		}
	}
}

// addedBy is how many measurements the writes add.
func addedBy(writes []*bucketer.Write) (n int) {
	for _, x := range writes {
		n += int(x.Added)
	}
	return n
}

// heard takes the answers.
func (s *sentWrites) heard(w *world, e pipeline.Event) {
	switch e := e.(type) {
	case pipeline.WritesSent:
		for i, sent := range e.Sent {
			w.note("(met) write " + sent.Result.String())
			if errors.Is(sent.Err, claim.ErrNoTurn) {
				w.note("(met) write without a turn")
			}
			switch sent.Result {
			case bucketer.Applied:
				delete(s.open, s.acting[i].ID)
			case bucketer.Refused:
				s.forget(s.acting[i], nil)
			}
		}
	case pipeline.WritesResolved:
		for i, found := range e.Found {
			if e.Err == nil && (found == bucketer.Applied || found == bucketer.AppliedForget) {
				delete(s.open, s.acting[i].ID)
			}
		}
	case pipeline.PositionsAsked:
		if e.Err == nil {
			w.note("(met) conflict")
			s.forget(s.acting[0], e.Stored)
		}
	}
}

// forget lets a write's positions go into another, but for those that are stored.
func (s *sentWrites) forget(x *bucketer.Write, stored []timeseries.Position) {
	delete(s.open, x.ID)
	for _, p := range positionsOf(x) {
		if !slices.Contains(stored, p) {
			delete(s.of, p)
		}
	}
}

// warm: nothing is unknown when a catalog goes on.
func (s *sentWrites) warm(w *world) {
	if len(s.open) > 0 && w.broken != warmAnyway {
		w.fail("E4", "a catalog goes on with %d unknown writes", len(s.open))
	}
}

// copyOf is a write that stays as it is when the memory of its flush is used again.
func copyOf(x *bucketer.Write) *bucketer.Write {
	own := *x
	own.Offsets, own.Filter, own.Document = slices.Clone(x.Offsets), slices.Clone(x.Filter), slices.Clone(x.Document)
	own.Meta.Value = slices.Clone(x.Meta.Value)
	return &own
}

// isSame reports whether the same bytes are sent again.
func isSame(x, y *bucketer.Write) bool {
	return x.Kind == y.Kind && x.Count == y.Count && bytes.Equal(x.Filter, y.Filter) && bytes.Equal(x.Document, y.Document)
}

func positionsOf(x *bucketer.Write) []timeseries.Position {
	positions, err := timeseries.DecodePositions(nil, x.Offsets)
	if err != nil {
		panic(err)
	}
	return positions
}
