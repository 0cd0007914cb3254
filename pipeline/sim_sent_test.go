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

// sentWrites tracks the writes that a worker sends since its stored positions were read. It copies them, because the worker
// reuses their memory.
type sentWrites struct {
	of     map[timeseries.Position]*bucketer.Write // the write in which a position was sent
	open   map[bson.ObjectID]*bucketer.Write       // writes that were sent and not resolved
	acting []*bucketer.Write                       // writes of the running action
}

// sending checks that a position goes into one write only (E3), and that a bucket with an unknown write gets no other write (E4).
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

// toldUnsent checks writes reported as not executed. They were not sent, or refused before any of them was executed (E4).
func (c *checks) toldUnsent(w *world, t *task, writes []*bucketer.Write, sent []bucketer.Sent) {
	for i := range sent {
		if sent[i].Result == bucketer.NotExecuted && t.handed[string(writes[i].ID[:])] && (w.broken == "" || w.broken == sentAsUnsent) {
			w.fail("E4", "a write to bucket %s was sent, and is told as not executed: %v", writes[i].ID.Hex(), sent[i].Err)
		}
	}
}

// addedBy returns the number of measurements that the writes add.
func addedBy(writes []*bucketer.Write) (n int) {
	for _, x := range writes {
		n += int(x.Added)
	}
	return n
}

// heard handles the answers to writes.
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

// forget allows a write's positions in another write, except stored ones.
func (s *sentWrites) forget(x *bucketer.Write, stored []timeseries.Position) {
	delete(s.open, x.ID)
	for _, p := range positionsOf(x) {
		if !slices.Contains(stored, p) {
			delete(s.of, p)
		}
	}
}

// warm checks that no write is unknown when a new term keeps a catalog.
func (s *sentWrites) warm(w *world) {
	if len(s.open) > 0 && w.broken != warmAnyway {
		w.fail("E4", "a catalog goes on with %d unknown writes", len(s.open))
	}
}

// copyOf returns a copy of a write that does not share the memory of its flush.
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
