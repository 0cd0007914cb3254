package events

import (
	"math/rand/v2"
	"time"
)

// Options say what a Generator makes.
type Options struct {
	// Series is the number of series. Required.
	Series int
	// Start is the time of the first measurements, Step the time between two of one series.
	Start time.Time
	Step  time.Duration
	// MaxBytes is the consumer's EVENT_MAX_BYTES.
	MaxBytes int
	// Late and VeryLate are the shares of readings that come up to ten minutes, and three hours, after their time. Two zeros
	// mean the usual few of each.
	Late, VeryLate float64
	// NoArrayMetas means that no meta is an array, which a shard key does not take.
	NoArrayMetas bool
	// Seed makes the same events again.
	Seed uint64
}

// Shares of events: one in a hundred is bad, three in a hundred come late.
const (
	badShare      = 0.01
	arrayShare    = 0.01
	lateShare     = 0.028
	veryLateShare = 0.002
)

// tombstoneEvery is how many events there are to a tombstone; no share, so that a thousand events have one for sure.
const tombstoneEvery = 1000

// Generator makes the events of many series, with all that goes wrong in practice: late and out-of-order readings,
// fields that come and go, changed types, arrays, tombstones, and bad events of every reason.
type Generator struct {
	options          Options
	random           *rand.Rand
	turn             int   // events made
	bad, badElements int   // so many were made: their reasons come by turns
	steps            []int // readings made, by series
}

// NewGenerator returns a generator of the given events.
func NewGenerator(o Options) *Generator {
	if o.Late == 0 && o.VeryLate == 0 {
		o.Late, o.VeryLate = lateShare, veryLateShare
	}
	return &Generator{options: o, random: rand.New(rand.NewPCG(o.Seed, 1)), steps: make([]int, o.Series)}
}

// Next makes an event. Every value differs from all others, except where a bad event has no room for a serial number.
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

// array makes a record of several readings of one series, now and then with an element that is not one.
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
			part, text = Part{Reading: &r}, AppendJSON(nil, r.document())
		}
		if i > 0 {
			e.Value = append(e.Value, ',')
		}
		e.Value = append(e.Value, text...)
		e.Fate.Parts = append(e.Fate.Parts, part)
	}
	e.Value = append(e.Value, ']')
	e.Key = AppendJSON(nil, g.metaOf(series))
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
