package verify

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"waterwheel/internal/record"
	"waterwheel/internal/timeseries"
)

func TestSetKeepsPositions(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	const start = 1 << 40
	s, other := newSet(start), newSet(start)
	want := map[timeseries.Position]bool{}
	for range 5000 {
		p := timeseries.Position{Offset: start + random.Int64N(300)}
		switch random.IntN(4) {
		case 0:
			p.Part = random.Int32N(3)
		case 1:
			p = timeseries.Position{Offset: start + random.Int64N(1<<32), Part: random.Int32N(timeseries.MaxParts)}
		}
		if s.add(p) == want[p] {
			t.Fatalf("%v: added twice, or not at all", p)
		}
		want[p] = true
		if random.IntN(2) == 0 {
			other.add(p)
		}
	}
	var got []timeseries.Position
	s.each(func(p timeseries.Position) { got = append(got, p) })
	slices.SortFunc(got, timeseries.Position.Compare)
	var expected []timeseries.Position
	for p := range want {
		expected = append(expected, p)
	}
	slices.SortFunc(expected, timeseries.Position.Compare)
	if diff := cmp.Diff(expected, got); diff != "" {
		t.Fatal(diff)
	}
	if s.count() != int64(len(want)) || s.without(other).count()+s.and(other).count() != s.count() {
		t.Errorf("%d positions, %d without and %d with another", s.count(), s.without(other).count(), s.and(other).count())
	}
	from, to := s.span()
	if from != expected[0].Offset || to != expected[len(expected)-1].Offset+1 {
		t.Errorf("they span %d to %d", from, to)
	}
}

func TestLettersCoverTheirElementOrTheirWholeRecord(t *testing.T) {
	var l DeadLetters
	l.Add(1, 10, record.WholeRecord)
	l.Add(1, 11, 2)
	l.Add(1, 1<<50, 2)
	l.Add(1, 11, -7)
	for p, want := range map[timeseries.Position]bool{
		{Offset: 10}: true, {Offset: 10, Part: 5}: true, {Offset: 11, Part: 2}: true, {Offset: 11}: false, {Offset: 12}: false,
		{Offset: 1 << 50, Part: 2}: false,
	} {
		if l.has(1, p) != want {
			t.Errorf("%v: %v", p, !want)
		}
	}
	if l.has(2, timeseries.Position{Offset: 10}) {
		t.Error("another partition's letter counts")
	}
}
