package bitmap

import (
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
)

// model is a set that is right at first sight.
type model map[uint64]bool

// drawn returns a number of one of several densities. Numbers of two draws are often equal or neighbours.
func drawn(random *rand.Rand) uint64 {
	switch random.IntN(4) {
	case 0:
		return random.Uint64N(5_000)
	case 1:
		return 3<<blockBits + random.Uint64N(1<<blockBits)
	case 2:
		return random.Uint64N(16) << blockBits
	}
	return ^uint64(0) - random.Uint64N(3)<<20
}

func check(t *testing.T, s *Set, m model) {
	t.Helper()
	want := slices.Sorted(maps.Keys(m))
	if got := slices.Collect(s.All()); !slices.Equal(got, want) {
		t.Fatalf("%d numbers, want %d", len(got), len(want))
	}
	least, ok := s.Min()
	if ok != (len(want) > 0) || ok && least != want[0] {
		t.Errorf("Min = %d, %v", least, ok)
	}
	most, ok := s.Max()
	if ok != (len(want) > 0) || ok && most != want[len(want)-1] {
		t.Errorf("Max = %d, %v", most, ok)
	}
	if s.Len() != len(want) {
		t.Errorf("Len = %d, want %d", s.Len(), len(want))
	}
	bytes := int64(0)
	for _, b := range s.blocks {
		bytes += blockBytes + b.bytes()
		if b.n == 0 || (b.bits == nil) == (b.list == nil) || b.list != nil && len(b.list) != b.n {
			t.Errorf("the block %+v", b)
		}
	}
	if s.Bytes() != bytes {
		t.Errorf("Bytes = %d, want %d", s.Bytes(), bytes)
	}
}

// TestSetIsItsModel tries the operations on two sets and compares the sets with maps.
func TestSetIsItsModel(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for range 60 {
		var sets [2]Set
		models := [2]model{{}, {}}
		for range 1 + random.IntN(6) {
			i := random.IntN(2)
			s, m := &sets[i], models[i]
			for range random.IntN(12_000) {
				v := drawn(random)
				if s.Add(v) == m[v] {
					t.Fatalf("Add(%d) = %v", v, m[v])
				}
				m[v] = true
			}
			for range 1000 {
				if v := drawn(random); s.Has(v) != m[v] {
					t.Fatalf("Has(%d) = %v", v, !m[v])
				}
			}
			check(t, s, m)
			other, others := &sets[1-i], models[1-i]
			both, only := model{}, model{}
			for v := range m {
				if others[v] {
					both[v] = true
				} else {
					only[v] = true
				}
			}
			check(t, Intersection(s, other), both)
			check(t, Difference(s, other), only)
			switch random.IntN(4) {
			case 0:
				*s = *Union(s, other)
				maps.Copy(m, others)
			case 1:
				*s = *Difference(s, other)
				models[i] = only
			case 2:
				from := drawn(random)
				s.RemoveFrom(from)
				maps.DeleteFunc(m, func(v uint64, _ bool) bool { return v >= from })
			}
			check(t, s, models[i])
			check(t, other, others)
		}
	}
}

// TestMergedSetsShareNothing checks that a set made of two others does not change with them.
func TestMergedSetsShareNothing(t *testing.T) {
	var s, u Set
	s.Add(1)
	u.Add(1 << 40)
	both := Union(&s, &u)
	u.Add(1<<40 + 1)
	if both.Len() != 2 || both.Has(1<<40+1) {
		t.Error("the union changes with the other set")
	}
}

func TestSetKnowsItsMemory(t *testing.T) {
	const others = 16 << 10 // bytes that the runtime itself may take meanwhile
	for name, step := range map[string]uint64{"dense": 1, "every second": 2, "sparse": 100, "ten to a block": 6500, "alone": 70_000} {
		before := heap()
		var s Set
		for i := range uint64(300_000) {
			s.Add(i * step)
		}
		taken, got := heap()-before, s.Bytes()
		runtime.KeepAlive(&s)
		if got < (taken-others)*9/10 || got > (taken+others)*3/2 {
			t.Errorf("%s: Bytes = %d, the heap grew by %d", name, got, taken)
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

func BenchmarkAdd(b *testing.B) {
	for name, step := range map[string]uint64{"dense": 1, "sparse": 100} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				var s Set
				for i := range uint64(100_000) {
					s.Add(i * step)
				}
			}
		})
	}
}
