package timeseries

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPositionsRoundTrip(t *testing.T) {
	for name, ps := range map[string][]Position{
		"none":              nil,
		"first":             {{Offset: 0}},
		"rising":            {{Offset: 1000}, {Offset: 1001}, {Offset: 1005}},
		"falling":           {{Offset: 9}, {Offset: 3}, {Offset: 0}},
		"one record":        {{Offset: 7}, {Offset: 7, Part: 1}, {Offset: 7, Part: MaxParts - 1}},
		"parts out of turn": {{Offset: 7, Part: 5}, {Offset: 7}, {Offset: 6, Part: 1}},
		"largest offset":    {{Offset: math.MaxInt64}, {Offset: 0}, {Offset: math.MaxInt64, Part: 3}},
	} {
		t.Run(name, func(t *testing.T) {
			encoded := AppendPositions(nil, ps)
			decoded, err := DecodePositions(nil, encoded)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(ps, decoded); diff != "" {
				t.Error(diff)
			}
			if n, err := CountPositions(encoded); n != len(ps) || err != nil {
				t.Errorf("CountPositions = %d, %v; want %d", n, err, len(ps))
			}
		})
	}
}

func TestPositionsAreEncodedAsDocumented(t *testing.T) {
	// zigzag(100)<<1 = 400, zigzag(+2)<<1 = 8, zigzag(-1)<<1|1 = 3 with part 300, zigzag(0)<<1|1 = 1 with part 1.
	ps := []Position{{Offset: 100}, {Offset: 102}, {Offset: 101, Part: 300}, {Offset: 101, Part: 1}}
	want := []byte{400&0x7f | 0x80, 400 >> 7, 8, 3, 300&0x7f | 0x80, 300 >> 7, 1, 1}
	if got := AppendPositions(nil, ps); !slices.Equal(got, want) {
		t.Errorf("got % x, want % x", got, want)
	}
}

func TestDecodePositionsRefuses(t *testing.T) {
	for name, b := range map[string][]byte{
		"cut in an offset":        {0x80},
		"cut before a part":       {0x01},
		"cut in a part":           {0x01, 0x80},
		"negative offset":         {0x02},
		"offset beyond 63 bits":   {0xfc, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x03, 0x04},
		"offset beyond 64 bits":   {0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x07},
		"endless varint":          {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff},
		"longer than needed":      {0x80, 0x00},
		"part 0 written out":      {0x01, 0x00},
		"part of 2^20":            {0x01, 0x80, 0x80, 0x40},
		"part longer than needed": {0x01, 0x81, 0x00},
	} {
		t.Run(name, func(t *testing.T) {
			kept := []Position{{Offset: 1}}
			got, err := DecodePositions(kept, b)
			if !errors.Is(err, ErrPositions) {
				t.Errorf("DecodePositions = %v, want ErrPositions", err)
			}
			if !slices.Equal(got, kept) {
				t.Errorf("positions are %v after the error, want what was given", got)
			}
			if _, err := CountPositions(b); !errors.Is(err, ErrPositions) {
				t.Errorf("CountPositions = %v, want ErrPositions", err)
			}
		})
	}
}

// FuzzDecodePositions checks that every accepted input has exactly one encoding and is within the documented bounds.
func FuzzDecodePositions(f *testing.F) {
	f.Add(AppendPositions(nil, []Position{{Offset: 100}, {Offset: 90, Part: 4}, {Offset: math.MaxInt64}}))
	f.Add([]byte{0xff, 0xff, 0x03, 0x01})
	f.Fuzz(func(t *testing.T, b []byte) {
		ps, err := DecodePositions(nil, b)
		n, countErr := CountPositions(b)
		if (err == nil) != (countErr == nil) || err == nil && n != len(ps) {
			t.Fatalf("decoded %d positions (%v), counted %d (%v)", len(ps), err, n, countErr)
		}
		if err != nil {
			return
		}
		for _, p := range ps {
			if p.Offset < 0 || p.Part < 0 || p.Part >= MaxParts {
				t.Fatalf("position %v is out of bounds", p)
			}
		}
		if again := AppendPositions(nil, ps); !slices.Equal(again, b) {
			t.Fatalf("% x decodes and encodes to % x", b, again)
		}
	})
}

// FuzzAppendPositions checks that every list of positions is unchanged after it is encoded and decoded.
func FuzzAppendPositions(f *testing.F) {
	f.Add(uint64(1), 10, int64(1000))
	f.Add(uint64(2), 3, int64(math.MaxInt64))
	f.Fuzz(func(t *testing.T, seed uint64, n int, spread int64) {
		random := rand.New(rand.NewPCG(seed, 0))
		ps := make([]Position, min(max(n, 0), 1000))
		for i := range ps {
			ps[i].Offset = random.Int64N(max(spread, 1))
			if random.IntN(3) == 0 {
				ps[i].Part = random.Int32N(MaxParts)
			}
		}
		got, err := DecodePositions(nil, AppendPositions(nil, ps))
		if err != nil || !slices.Equal(got, ps) {
			t.Fatalf("%v came back as %v, %v", ps, got, err)
		}
	})
}

func BenchmarkAppendPositions(b *testing.B) {
	ps := make([]Position, 1000)
	for i := range ps {
		ps[i].Offset = 1_000_000 + int64(i)*100
	}
	dst := AppendPositions(nil, ps)
	b.ReportMetric(float64(len(dst))/float64(len(ps)), "bytes/position")
	b.ReportAllocs()
	for b.Loop() {
		dst = AppendPositions(dst[:0], ps)
	}
}

func BenchmarkDecodePositions(b *testing.B) {
	ps := make([]Position, 1000)
	for i := range ps {
		ps[i].Offset = 1_000_000 + int64(i)*100
	}
	encoded := AppendPositions(nil, ps)
	b.ReportAllocs()
	for b.Loop() {
		ps, _ = DecodePositions(ps[:0], encoded)
	}
}
