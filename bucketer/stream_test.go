package bucketer

import (
	"math/rand/v2"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/measurement"
	"waterwheel/timeseries"
)

// reading is a measurement as a model thinks of it.
type reading struct {
	position timeseries.Position
	time     int64
	series   string // the binary key
	fields   bson.D
}

// stream makes random measurements: late ones, several a record, of changing schemas, nested, large.
type stream struct {
	t      testing.TB
	random *rand.Rand
	offset int64
	part   int32
	clock  int64
	series int
	spread int64 // by how many milliseconds times may be off
}

func newStream(t testing.TB, random *rand.Rand) *stream {
	spreads := []int64{1000, 600_000, 5_000_000, 20_000_000}
	return &stream{
		t: t, random: random, clock: 1_700_000_000_000, series: 1 + random.IntN(4),
		spread: spreads[random.IntN(len(spreads))],
	}
}

func (s *stream) next() reading {
	if s.part > 0 && s.random.IntN(3) > 0 {
		s.part++
	} else {
		s.offset += 1 + s.random.Int64N(3)
		s.part = s.random.Int32N(2)
	}
	s.clock += s.random.Int64N(60_000)
	r := reading{
		position: timeseries.Position{Offset: s.offset, Part: s.part},
		time:     s.clock - s.random.Int64N(s.spread),
	}
	if s.random.IntN(200) == 0 {
		r.time = -s.random.Int64N(1 << 40)
	}
	if n := s.random.IntN(s.series); n > 0 {
		r.series = string(rune(bson.TypeInt32)) + string([]byte{byte(n), 0, 0, 0})
	}
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		if s.random.IntN(4) > 0 {
			r.fields = append(r.fields, bson.E{Key: name, Value: s.value(0)})
		}
	}
	if s.random.IntN(6) == 0 {
		s.random.Shuffle(len(r.fields), func(i, j int) { r.fields[i], r.fields[j] = r.fields[j], r.fields[i] })
	}
	return r
}

// value is mostly a number, so that buckets grow.
func (s *stream) value(depth int) any {
	switch n := s.random.IntN(60); {
	case n < 20:
		return s.random.Int32N(100)
	case n < 40:
		return float64(s.random.IntN(1000)) / 8
	case n < 44:
		return s.random.Int64N(1 << 50)
	case n < 46:
		return bson.NewDecimal128(0x3040000000000000, uint64(s.random.IntN(100)))
	case n == 46:
		return strings.Repeat("x", s.random.IntN(300))
	case n == 47:
		return nil
	case n == 48:
		return s.random.IntN(2) == 0
	case depth > 2 || n < 52:
		return s.random.Int32N(10)
	case n < 57:
		d := bson.D{}
		for _, name := range []string{"x", "y", "z", "u.v", "$w"}[:s.random.IntN(6)] {
			d = append(d, bson.E{Key: name, Value: s.value(depth + 1)})
		}
		return d
	default:
		a := bson.A{}
		for range s.random.IntN(4) {
			a = append(a, s.value(depth+1))
		}
		return a
	}
}

// measurement is the reading as a Decoder would make it.
func (r reading) measurement(t testing.TB) *measurement.Measurement {
	m := &measurement.Measurement{Position: r.position, Time: r.time, Elements: elementsOf(t, r.fields)}
	if r.series != "" {
		m.Meta = bson.RawValue{Type: bson.Type(r.series[0]), Value: []byte(r.series[1:])}
	}
	return m
}
