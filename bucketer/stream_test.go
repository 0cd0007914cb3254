package bucketer

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/measurement"
	"waterwheel/internal/timeseries"
)

// reading is a measurement in the form of the models.
type reading struct {
	position timeseries.Position
	time     int64
	series   string // the binary key
	fields   bson.D
}

// stream makes random measurements, with late ones, several per record, changing schemas, nested and large values.
type stream struct {
	t      testing.TB
	random *rand.Rand
	offset int64
	part   int32
	clock  int64
	series int
	spread int64 // maximum deviation of times in milliseconds
	pace   int64 // maximum step of the clock between two measurements in milliseconds
	wild   int   // one of so many values differs from the usual kind of its field
	swing  int   // number of habits between which the values of a and b alternate
	usual  map[string]habit
}

// habit is the usual kind of a field's values, so that a bucket takes many of them.
type habit int

const (
	numbers habit = iota
	texts
	booleans
	nulls
	objects
	arrays
)

func newStream(t testing.TB, random *rand.Rand) *stream {
	return &stream{
		t: t, random: random, clock: 1_700_000_000_000, series: 1 + random.IntN(4),
		spread: oneOf[int64](random, 1000, 600_000, 5_000_000, 20_000_000),
		pace:   oneOf[int64](random, 1000, 60_000, 60_000),
		wild:   oneOf(random, 5, 20, 100, 1000),
		swing:  oneOf(random, 1, 1, 2, 3, 6),
		usual:  map[string]habit{},
	}
}

func oneOf[T any](random *rand.Rand, of ...T) T { return of[random.IntN(len(of))] }

func (s *stream) next() reading {
	if s.part > 0 && s.random.IntN(3) > 0 {
		s.part++
	} else {
		s.offset += 1 + s.random.Int64N(3)
		s.part = s.random.Int32N(2)
	}
	s.clock += s.random.Int64N(s.pace)
	r := reading{
		position: timeseries.Position{Offset: s.offset, Part: s.part},
		time:     s.clock - s.random.Int64N(s.spread),
	}
	switch n := s.random.IntN(200); {
	case n == 0:
		r.time = -s.random.Int64N(1 << 40)
	case n < 30: // the bounds of windows
		r.time -= r.time % oneOf[int64](s.random, 60_000, 3_600_000)
	}
	if n := s.random.IntN(s.series); n > 0 {
		r.series = string(rune(bson.TypeInt32)) + string([]byte{byte(n), 0, 0, 0})
	}
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		if s.random.IntN(4) > 0 {
			r.fields = append(r.fields, bson.E{Key: name, Value: s.value(name, 0)})
		}
	}
	if s.random.IntN(6) == 0 {
		s.random.Shuffle(len(r.fields), func(i, j int) { r.fields[i], r.fields[j] = r.fields[j], r.fields[i] })
	}
	return r
}

// value makes a value for a path, mostly of the path's usual kind.
func (s *stream) value(path string, depth int) any {
	usual, ok := s.usual[path]
	if !ok {
		usual = s.habit(depth)
		s.usual[path] = usual
	}
	switch {
	case s.random.IntN(s.wild) == 0:
		usual = s.habit(depth)
	case s.swing > 1 && (path == "a" || path == "b"):
		usual = habit(s.random.IntN(s.swing))
	}
	switch usual {
	case texts:
		return strings.Repeat(string(rune('x'+s.random.IntN(2))), s.random.IntN(oneOf(s.random, 3, 3, 300)))
	case booleans:
		return s.random.IntN(2) == 0
	case nulls:
		return nil
	case objects:
		d := bson.D{}
		for _, name := range []string{"x", "y", "z", "u.v", "$w"}[:s.random.IntN(6)] {
			if s.random.IntN(4) > 0 {
				d = append(d, bson.E{Key: name, Value: s.value(path+"/"+name, depth+1)})
			}
		}
		return d
	case arrays:
		a := bson.A{}
		for range s.random.IntN(4) {
			a = append(a, s.value(path+"[]", depth+1))
		}
		return a
	}
	return s.number()
}

func (s *stream) habit(depth int) habit {
	switch n := s.random.IntN(20); {
	case n < 12 || n > 15 && depth > 2:
		return numbers
	case n == 12:
		return texts
	case n == 13:
		return booleans
	case n == 14:
		return nulls
	case n < 18:
		return objects
	default:
		return arrays
	}
}

// number makes a number out of few values. Many are therefore equal, and the type shows which came first.
func (s *stream) number() any {
	n := s.random.IntN(100)
	switch s.random.IntN(40) {
	case 0:
		return math.NaN()
	case 1:
		return math.Inf(1 - n%2*2)
	case 2:
		return math.Copysign(0, -1)
	case 3:
		return s.random.Int64N(1 << 50)
	case 4:
		return bson.NewDecimal128(0x7c00000000000000, 0) // NaN
	case 5, 6:
		return bson.NewDecimal128(0x303e000000000000, uint64(n)*5) // with one digit after the point
	case 7, 8:
		return bson.NewDecimal128(0x3040000000000000, uint64(n))
	case 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24:
		return float64(n) / 4
	case 25, 26, 27, 28:
		return int64(n)
	}
	return int32(n)
}

// measurement returns the reading as a Decoder would return it.
func (r reading) measurement(t testing.TB) *measurement.Measurement {
	m := &measurement.Measurement{Position: r.position, Time: r.time, Elements: elementsOf(t, r.fields)}
	if r.series != "" {
		m.Meta = bson.RawValue{Type: bson.Type(r.series[0]), Value: []byte(r.series[1:])}
	}
	return m
}
