package verify

import (
	"context"
	"errors"
	"fmt"
	"time"

	"waterwheel/claim"
)

const (
	// settledLong is how long ago a settling's moment must lie for the first reading of a window to take the settling for one that
	// was over before: the moment lies in the future when it is announced, by the clock of a consumer.
	settledLong = 15 * time.Minute
	// recounts bounds how often positions are counted anew because they were being settled meanwhile. The second time finds a
	// settling over that the first met, and no measurement is settled twice, unless a settling is undone.
	recounts = 10
)

// errUnsettled tells that the stored copies of some measurements could not be told apart.
var errUnsettled = errors.New("the same measurements were being settled whenever they were looked at: verify again")

// settlings tells which of the documents that list a measurement is its stored copy. While a settling is announced, these are its
// segments, whatever they say, and not its buckets: it may be undone. Once it is over, they are its buckets. (One that was undone
// is in no document any more; or one of its buckets came late, which then is a double.)
//
// A reading of documents takes time, and whole settlings may happen during it: it may see a segment before its end, and later
// the buckets made of it, or the segment after its end, and have passed the place of the buckets before they came. So the answer
// is sure only for settlings that did not change meanwhile:
//
//   - Each settling has a token of its own, and is announced once. One that a document names, and that a later reading of the
//     partition documents does not show, is over for good. A reading of documents that begins thereafter sees all its buckets.
//   - One that is announced when the reading begins and when it has ended was announced all the time.
//
// A measurement that is counted wrongly by a reading was so because of a settling that came to be announced, or was over,
// meanwhile. Then a document that names it was seen: either one of its buckets as well as the segment before its end, or the
// segment after its end. What such documents list is unsure, and read again: then the settling is one of the two kinds above.
// (Only a settling of whose documents none was seen, because its segments were deleted before the reading came to them, escapes.
// Its measurements seem to be missing, and what is missing is looked for again.)
type settlings struct {
	buckets Buckets
	// announced are those that partition documents showed when the reading of documents began.
	announced map[claim.Token]bool
	// seen are those that documents named; over are those of seen that a later reading of the partition documents did not show.
	seen, over map[claim.Token]bool
	// long: what was settled before then was settled before the reading began; milliseconds since 1970, 0: that is not known.
	long int64
}

func newSettlings(buckets Buckets) *settlings {
	return &settlings{buckets: buckets, seen: map[claim.Token]bool{}, over: map[claim.Token]bool{}}
}

// begin is called before documents are read.
func (s *settlings) begin(ctx context.Context) error {
	if err := s.refresh(ctx); err != nil {
		return err
	}
	for by := range s.seen {
		s.over[by] = s.over[by] || !s.announced[by]
	}
	s.long = 0
	return nil
}

// refresh learns what is announced now, and not what is over.
func (s *settlings) refresh(ctx context.Context) error {
	announced, err := s.read(ctx)
	s.announced = announced
	return err
}

func (s *settlings) read(ctx context.Context) (map[claim.Token]bool, error) {
	announced, err := s.buckets.Unfinished(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading which compactions are unfinished: %w", err)
	}
	return announced, nil
}

// lifted tells, after documents were read, whether a settling is not announced any more that was when that began.
func (s *settlings) lifted(ctx context.Context) (bool, error) {
	if len(s.announced) == 0 {
		return false, nil
	}
	now, err := s.read(ctx)
	for by := range s.announced {
		if !now[by] {
			return true, err
		}
	}
	return false, err
}

// state is how sure it is whether a document counts.
type state uint8

const (
	sure      state = iota
	announced       // sure if its settling stays announced
	unsure          // its settling came, or went, at an unknown time
)

// judge tells whether a document is the stored copy of what it lists.
func (s *settlings) judge(b *listing) (counts bool, st state) {
	if b.by == (claim.Token{}) {
		return !b.ended, sure
	}
	s.seen[b.by] = true
	if s.announced[b.by] {
		return b.segment, announced
	}
	if counts = !b.segment; s.over[b.by] || b.moment < s.long {
		return counts, sure
	}
	return counts, unsure
}

// count reads what documents list of the offsets [from, to), of some positions or (nil) all, and puts it into stored and twice. Each is
// called for every document. It returns of which positions that is not sure.
func (w *window) count(ctx context.Context, of *set, from, to int64, whole bool, each func(b *listing, counts bool)) (*set, error) {
	again, resting := newSet(w.start), newSet(w.start) // resting on announced settlings
	err := w.scan(ctx, from, to, whole, func(b *listing) error {
		counts, st := w.settlings.judge(b)
		for _, p := range b.positions {
			if !w.holds(p) || of != nil && !of.has(p) {
				continue
			}
			switch st {
			case announced:
				resting.add(p)
			case unsure:
				again.add(p)
			}
			if counts && !w.stored.add(p) {
				w.twice.add(p)
			}
		}
		each(b, counts)
		return nil
	})
	if err != nil {
		return nil, err
	}
	lifted, err := w.settlings.lifted(ctx)
	if lifted {
		again.addAll(resting)
	}
	return again, err
}

// recount reads anew what documents list of some positions, until it is sure.
func (w *window) recount(ctx context.Context, of *set) error {
	for range recounts {
		if of.count() == 0 {
			return nil
		}
		w.stored.remove(of)
		w.twice.remove(of)
		if err := w.settlings.begin(ctx); err != nil {
			return err
		}
		from, to := of.span()
		again, err := w.count(ctx, of, from, to, false, func(*listing, bool) {})
		if err != nil {
			return err
		}
		of = again
	}
	return errUnsettled
}
