package events

import (
	"fmt"
	"math/rand/v2"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Options says which events a Generator makes.
type Options struct {
	// Series is the number of series. It must be positive.
	Series int
	// Start is the time of the first measurements. Step is the time between two measurements of a series.
	Start time.Time
	Step  time.Duration
	// MaxBytes is the consumer's EVENT_MAX_BYTES.
	MaxBytes int
	// Late and VeryLate are the shares of readings that come up to ten minutes late, and three hours late. If both are zero,
	// lateShare and veryLateShare apply.
	Late, VeryLate float64
	// NoArrayMetas avoids metas that are arrays, which a shard key does not support.
	NoArrayMetas bool
	// Seed determines the events. Equal seeds make equal events.
	Seed uint64
}

// These are shares of the events. One in a hundred is bad, three in a hundred come late.
const (
	badShare      = 0.01
	arrayShare    = 0.01
	lateShare     = 0.028
	veryLateShare = 0.002
)

// tombstoneEvery is the number of events per tombstone. It is fixed instead of random, so that a thousand events always have one.
const tombstoneEvery = 1000

// Generator makes the events of many series, with the irregularities of practice. There are late and out-of-order readings,
// fields that come and go, changed types, arrays, tombstones, and bad events of every reason.
type Generator struct {
	options          Options
	random           *rand.Rand
	turn             int   // events made
	bad, badElements int   // numbers of bad events and elements made, which select the next reason
	steps            []int // numbers of readings made, by series
}

// NewGenerator returns a generator with the given options.
func NewGenerator(o Options) *Generator {
	if o.Late == 0 && o.VeryLate == 0 {
		o.Late, o.VeryLate = lateShare, veryLateShare
	}
	return &Generator{options: o, random: rand.New(rand.NewPCG(o.Seed, 1)), steps: make([]int, o.Series)}
}

// Next makes an event. Every value is unique, except that of a bad event without room for a serial number.
func (g *Generator) Next() Event {
	g.turn++
	switch at := g.random.Float64(); {
	case g.turn%tombstoneEvery == 0:
		return Tombstone("gone")
	case at < badShare:
		g.bad++
		reasons := Reasons()
		return Bad(reasons[g.bad%len(reasons)], g.turn, g.options.Start.UnixMilli(), g.options.MaxBytes)
	case at < badShare+arrayShare:
		return g.array()
	default:
		return Of(g.reading(g.turn % g.options.Series))
	}
}

// array makes a record of several readings of one series. Some records contain an element that is no reading.
func (g *Generator) array() Event {
	series := g.random.IntN(g.options.Series)
	e := Event{Fate: Fate{Array: true}, Value: []byte{'['}}
	for i := range 1 + g.random.IntN(4) {
		var part Part
		var text []byte
		if g.random.IntN(10) == 0 {
			part, text = g.badElement()
		} else {
			r := g.reading(series)
			part, text = Part{Reading: &r}, inJSON(r.document())
		}
		if i > 0 {
			e.Value = append(e.Value, ',')
		}
		e.Value = append(e.Value, text...)
		e.Fate.Parts = append(e.Fate.Parts, part)
	}
	e.Value = append(e.Value, ']')
	e.Key = inJSON(g.metaOf(series))
	return e
}

// badElement makes an element of an array that must become a letter of its own.
func (g *Generator) badElement() (Part, []byte) {
	g.badElements++
	reasons := []string{"missing_time", "bad_time", "not_object", "missing_meta"}
	e := Bad(reasons[g.badElements%len(reasons)], g.turn, g.options.Start.UnixMilli(), g.options.MaxBytes)
	return Part{Reason: e.Fate.Reason, Value: e.Value}, e.Value
}

// reading makes the next reading of a series.
func (g *Generator) reading(series int) Reading {
	step := g.steps[series]
	g.steps[series]++
	at := g.options.Start.Add(time.Duration(step)*g.options.Step + time.Duration(g.random.IntN(1000))*time.Millisecond)
	switch late := g.random.Float64(); {
	case late < g.options.VeryLate:
		at = at.Add(-3 * time.Hour)
	case late < g.options.VeryLate+g.options.Late:
		at = at.Add(-time.Duration(g.random.IntN(600)) * time.Second)
	}
	return Reading{Time: at.UnixMilli(), Meta: g.metaOf(series), Fields: g.fields(series, step)}
}

// metaOf returns the identity of a series. Most are objects with unsorted fields, and there is one of each other kind.
func (g *Generator) metaOf(series int) any {
	switch series {
	case 3:
		return nil
	case 4:
		if g.options.NoArrayMetas {
			return "rack"
		}
		return bson.A{"rack", int32(series)}
	case 5:
		return int32(series)
	case 6:
		return float64(5)
	case 7:
		return false
	}
	switch series % 3 {
	case 0:
		return fmt.Sprintf("sensor-%d", series)
	case 1:
		return bson.D{{Key: "site", Value: "north"}, {Key: "id", Value: int32(series)}}
	default:
		place := bson.D{{Key: "room", Value: int32(series % 10)}, {Key: "floor", Value: "é\"1"}}
		return bson.D{{Key: "place", Value: place}, {Key: "id", Value: int32(series)}}
	}
}

// fields makes the values of one reading. Series of one kind have the same fields. Every reading has the serial number step,
// which makes its event unique.
func (g *Generator) fields(series, step int) bson.D {
	fields := bson.D{{Key: "step", Value: int32(step)}}
	r := g.random
	add := func(name string, value any) { fields = append(fields, bson.E{Key: name, Value: value}) }
	switch series % 5 {
	case 0:
		add("user", r.NormFloat64()*10+30)
		add("idle", float64(r.IntN(100)))
		add("threads", int32(r.IntN(500)))
	case 1:
		add("temperature", float64(r.IntN(400)-100)/10)
		add("position", bson.D{{Key: "lat", Value: r.Float64()}, {Key: "lon", Value: int32(r.IntN(180))}, {Key: "fix", Value: bson.D{}}})
	case 2:
		add("bytes", int64(1)<<40+r.Int64N(1<<50))
		add("up", r.IntN(2) == 0)
		add("state", []string{"ok", "degraded", "", "prüfen"}[r.IntN(4)])
	case 3:
		samples := bson.A{}
		for range r.IntN(4) {
			samples = append(samples, int32(r.IntN(1000)-500))
		}
		add("samples", samples)
		add("note", nil)
	default:
		g.changing(add)
	}
	return fields
}

// changing adds fields that come and go, numbers of changing width, and sometimes a type that cannot share a bucket with the
// others.
func (g *Generator) changing(add func(string, any)) {
	r := g.random
	if r.IntN(3) > 0 {
		add("pressure", []any{int32(r.IntN(9)), int64(1)<<33 + int64(r.IntN(9)), r.Float64() * 9}[r.IntN(3)])
	}
	if r.IntN(3) > 0 {
		add("flow", r.Float64()*100)
	}
	if r.IntN(60) == 0 {
		add("quality", "bad")
	} else {
		add("quality", int32(r.IntN(5)))
	}
}
