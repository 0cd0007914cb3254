package timeseries

import (
	"errors"
	"math/rand/v2"
	"runtime"
	"testing"
)

func TestPositionSetHoldsWhatWasPutIn(t *testing.T) {
	const start, end = 5_000_000_000, 5_000_300_000
	random := rand.New(rand.NewPCG(1, 2))
	set, naive := NewPositionSet(start, end), map[Position]bool{}
	draw := func() Position {
		p := Position{Offset: start - 500 + random.Int64N(end-start+1000)}
		if random.IntN(4) == 0 {
			p.Part = random.Int32N(3)
		}
		return p
	}
	var last int64
	for range 20_000 {
		p := draw()
		set.Add(p)
		if p.Offset >= start && p.Offset < end {
			naive[p] = true
			last = max(last, p.Offset)
		}
	}
	for range 100_000 {
		if p := draw(); set.Contains(p) != naive[p] {
			t.Fatalf("Contains(%v) = %v, want %v", p, !naive[p], naive[p])
		}
	}
	if set.Len() != len(naive) {
		t.Errorf("Len = %d, want %d", set.Len(), len(naive))
	}
	if got, ok := set.Max(); !ok || got != last {
		t.Errorf("Max = %d, %v, want %d", got, ok, last)
	}
}

func TestPositionSetShrinks(t *testing.T) {
	const start, end = 1 << 40, 1<<40 + 300_000
	set, kept := NewPositionSet(start, end), map[Position]bool{}
	for i := range int64(30_000) {
		p := Position{Offset: start + i*10, Part: int32(i % 3)}
		set.Add(p)
		kept[p] = true
	}
	for _, to := range []int64{end, end + 5, start - 1, start + 200_000, start + 131_072, start + 65_535, start + 11, start + 1, start} {
		before := set.Bytes()
		set.Shrink(to)
		var last int64 = -1
		for p := range kept {
			if p.Offset >= to && to >= start {
				delete(kept, p)
				if set.Contains(p) {
					t.Fatalf("shrunk to %d: %v is still in", to, p)
				}
			} else if last = max(last, p.Offset); !set.Contains(p) {
				t.Fatalf("shrunk to %d: %v is not in any more", to, p)
			}
		}
		if got, ok := set.Max(); set.Len() != len(kept) || ok != (len(kept) > 0) || ok && got != last {
			t.Errorf("shrunk to %d: Max = %d, %v, want %d; Len = %d, want %d", to, got, ok, last, set.Len(), len(kept))
		}
		if _, ends := set.Window(); ends != min(end, max(to, start)) && to >= start || set.Bytes() > before {
			t.Errorf("shrunk to %d: the window ends at %d, %d bytes after %d", to, ends, set.Bytes(), before)
		}
		if set.Add(Position{Offset: max(to, start)}); to < end && to >= start && set.Contains(Position{Offset: to}) {
			t.Errorf("shrunk to %d: what lies beyond can be put in", to)
		}
	}
}

func TestPositionSetCoversTheLargestWindow(t *testing.T) {
	const start = 1 << 40
	set := NewPositionSet(start, start+1<<32)
	for _, p := range []Position{
		{Offset: start},
		{Offset: start, Part: MaxParts - 1},
		{Offset: start + 1<<32 - 1},
		{Offset: start + 1<<32 - 1, Part: MaxParts - 1},
	} {
		if set.Contains(p) {
			t.Errorf("%v is in before it was put in", p)
		}
		set.Add(p)
		if !set.Contains(p) {
			t.Errorf("%v is not in", p)
		}
	}
	for _, p := range []Position{{Offset: start - 1}, {Offset: start + 1<<32}} {
		if set.Add(p); set.Contains(p) {
			t.Errorf("%v is in, outside the window", p)
		}
	}
	if set.Len() != 4 {
		t.Errorf("Len = %d, want 4", set.Len())
	}
}

func TestPositionSetRefusesImpossibleWindows(t *testing.T) {
	for _, window := range [][2]int64{{-1, 5}, {5, 4}, {0, 1<<32 + 1}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("window %v was accepted", window)
				}
			}()
			NewPositionSet(window[0], window[1])
		}()
	}
}

func TestPositionSetAddsEncodedPositions(t *testing.T) {
	set := NewPositionSet(10, 20)
	encoded := AppendPositions(nil, []Position{{Offset: 9}, {Offset: 10}, {Offset: 15, Part: 2}, {Offset: 20}})
	if n, err := set.AddEncoded(encoded); n != 4 || err != nil {
		t.Errorf("AddEncoded = %d, %v; want 4, those outside the window counted", n, err)
	}
	if set.Len() != 2 || !set.Contains(Position{Offset: 10}) || !set.Contains(Position{Offset: 15, Part: 2}) {
		t.Errorf("the set has %d positions, want the two inside the window", set.Len())
	}
	broken := append(AppendPositions(nil, []Position{{Offset: 12}}), 0x80)
	if _, err := set.AddEncoded(broken); !errors.Is(err, ErrPositions) {
		t.Errorf("AddEncoded of a broken element = %v, want ErrPositions", err)
	}
	if set.Contains(Position{Offset: 12}) {
		t.Error("a part of a broken element was put in")
	}
}

func TestEmptyPositionSet(t *testing.T) {
	set := NewPositionSet(7, 7)
	if _, ok := set.Max(); ok || set.Len() != 0 || set.Contains(Position{Offset: 7}) {
		t.Error("an empty set holds something")
	}
}

func TestPositionSetTakesABitAnOffset(t *testing.T) {
	const offsets = 4 << 20
	set := NewPositionSet(0, offsets)
	for offset := int64(0); offset < offsets; offset += 2 { // the worst case for runs
		set.Add(Position{Offset: offset})
	}
	if got, most := set.Bytes(), int64(offsets/8+offsets>>16*128); got < offsets/8 || got > most {
		t.Errorf("Bytes = %d, want %d to %d", got, offsets/8, most)
	}
}

func TestPositionSetKnowsItsMemory(t *testing.T) {
	for _, step := range []int64{100, 1000, 70_000} {
		for part := range int32(2) {
			before := heap()
			set := NewPositionSet(0, 1<<32)
			for i := range int64(60_000) {
				set.Add(Position{Offset: i * step, Part: part})
			}
			taken, got := heap()-before, set.Bytes()
			runtime.KeepAlive(set)
			if got < taken*9/10 || got > taken*2 {
				t.Errorf("step %d, part %d: Bytes = %d, the heap grew by %d", step, part, got, taken)
			}
		}
	}
}

func heap() int64 {
	runtime.GC()
	runtime.GC() // the first collection only retires the content of pools
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

func BenchmarkPositionSetContains(b *testing.B) {
	set := NewPositionSet(1000, 1000+4<<20)
	for offset := int64(1000); offset < 1000+2<<20; offset += 3 {
		set.Add(Position{Offset: offset})
	}
	for name, first := range map[string]int64{"within": 1000, "passed": 1000 + 3<<20} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			p := Position{Offset: first}
			for b.Loop() {
				set.Contains(p)
				p.Offset = first + (p.Offset-first+1)&(1<<20-1)
			}
		})
	}
}

func BenchmarkPositionSetAddEncoded(b *testing.B) {
	ps := make([]Position, 1000)
	for i := range ps {
		ps[i].Offset = int64(i) * 100
	}
	encoded := AppendPositions(nil, ps)
	b.ReportAllocs()
	for b.Loop() {
		set := NewPositionSet(0, 1<<20)
		if _, err := set.AddEncoded(encoded); err != nil {
			b.Fatal(err)
		}
	}
}
