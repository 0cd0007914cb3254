package pipeline_test

import (
	"io"
	"math/rand/v2"
	"slices"
	"time"

	"waterwheel/internal/claim"
)

// traits are properties of a whole run.
type traits struct {
	lossy, late, partial float64 // shares of requests and answers that are lost or late, and of bulks executed in parts
	commitLag            bool    // a committed offset becomes readable with a delay
	lag                  bool    // majority reads lag
	sessions             bool    // the server has sessions, and more than one member
	sharded              bool    // buckets lie on another shard than claims and options, and their chunks move
	mixed                bool    // each process has its own settings
	static               bool    // some members are static
	startAtEnd           bool    // KAFKA_START is latest
	noDeadLetters        bool    // the dead-letter topic is missing until an operator makes it
	bad, arrays, poison  float64 // shares of records
	memory               float64 // share of events at which memory is short
	slow                 float64 // the longest time of a command of MongoDB, as a share of the write timeout
	partitions           int32
	processes            int
	pace                 float64 // longest time between two schedules, seconds
	segments             bool    // the collection has segments
	schemas              bool    // records are in Avro and name their schemas
	refusing             bool    // MongoDB refuses buckets of the series refusedSeries, not segments, until the mishaps end
	settings             settings
}

// newWorld makes a world from a seed.
func newWorld(seed uint64, broken mutation, trace io.Writer) *world {
	w := &world{
		seed: seed, rnd: rand.New(rand.NewPCG(seed, 0)), side: rand.New(rand.NewPCG(seed, 1)), broken: broken, chaos: true, trace: trace, slots: map[int]*process{},
		seen: map[string]int{}, answers: map[answer]int{}, deadLetters: map[deadLetterKey]bool{}, firstClaims: map[int32]time.Duration{},
		checks: checks{
			values: map[int64]int{}, edited: map[string]bool{}, movedBy: map[string]string{}, doubled: map[int64]doubled{},
			staged: newStaging(), zombie: &term{owner: "a zombie"}, repairer: &term{owner: "a repair"},
		},
	}
	w.log = w.logger()
	w.traits = traits{
		lossy: pick(w, 0, 0.03, 0.1), late: pick(w, 0.02, 0.1, 0.3), partial: pick(w, 0, 0.1, 0.3),
		commitLag: w.chance(0.5), lag: w.chance(0.5), sessions: w.chance(0.85), mixed: w.chance(0.5), static: w.chance(0.3),
		startAtEnd: w.chance(0.2), noDeadLetters: w.chance(0.15),
		bad: pick(w, 0, 0.1), arrays: pick(w, 0, 0.3), poison: pick(w, 0, 0, 0.1), memory: pick(w, 0, 0, 0.1),
		partitions: pick[int32](w, 1, 1, 2), processes: pick(w, 1, 2, 2, 3), pace: pick(w, 3.0, 6, 15),
	}
	if w.traits.noDeadLetters { // each bad record needs an operator
		w.traits.bad, w.traits.poison = pick(w, 0.02, 0.05), pick(w, 0, 0.02)
	}
	w.drawAside(func() { w.traits.slow = pick(w, 0, 0, 0, 0.3, 0.8) })
	w.traits.settings = w.drawSettings()
	w.mongo, w.group = newMongod(w), newCoordinator(w, "group")
	w.kafka = newBroker(w)
	w.drawAside(w.reconfigure)
	w.drawAside(w.registerSchemas)
	pool := schedules
	if w.chance(0.5) {
		pool = memberSchedules
	}
	for range pick(w, 1, 2, 3, 4, 8) {
		w.kinds = append(w.kinds, pick(w, pool...))
	}
	for _, s := range schedules {
		if s.name == *simWith {
			w.kinds = append(w.kinds, s)
		}
		if p := provoking[broken]; s.name == p.schedule {
			w.kinds = append(w.kinds, slices.Repeat([]*schedule{s}, p.times)...)
			w.traits.pace = max(w.traits.pace, p.pace)
		}
	}
	w.drawAside(func() { w.traits.segments = w.chance(0.4) })
	switch broken { // uses random numbers of its own, so that the runs of other mutations do not change
	case "":
		w.traits.sharded = w.traits.sessions && rand.New(rand.NewPCG(seed, 2)).Float64() < 0.3
	case keyForgotten, shardsReadApart:
		w.traits.sessions, w.traits.sharded = true, true
	case fenceOnOneShard:
		w.traits.sessions, w.traits.lag, w.traits.sharded = true, true, true
	}
	w.drawAside(func() { w.traits.refusing = w.traits.segments && w.chance(0.1) })
	if slices.Contains(compactionMutations, broken) {
		w.traits.segments = true
		w.kinds = append(w.kinds, memberSchedules[0])
	}
	w.noteTraits()
	return w
}

// noteTraits counts the runs with each trait.
func (w *world) noteTraits() {
	t := &w.traits
	for name, on := range map[string]bool{
		"lost requests and answers": t.lossy > 0, "partial bulks": t.partial > 0, "commit lag": t.commitLag,
		"majority reads that lag": t.lag && t.sessions, "a server without sessions": !t.sessions, "buckets on a shard of their own": t.sharded,
		"settings that differ between owners": t.mixed, "static members": t.static, "start at the log's end": t.startAtEnd,
		"bad records": t.bad > 0, "arrays": t.arrays > 0, "records that MongoDB refuses": t.poison > 0,
		"short memory": t.memory > 0, "a slow MongoDB": t.slow > 0, "several partitions": t.partitions > 1, "several processes": t.processes > 1,
		"no dead-letter topic": t.noDeadLetters, "segments": t.segments, "a series whose buckets MongoDB refuses": t.refusing, "records that name schemas": t.schemas,
	} {
		if on {
			w.note("(trait) " + name)
		}
	}
}

func (w *world) settings() settings {
	if w.traits.mixed {
		return w.drawSettings()
	}
	return w.traits.settings
}

// longestLease is the longest lease that drawSettings draws, and longestGrace the grace for its longest write timeout.
const (
	longestLease = 16 * time.Second
	longestGrace = 8 * time.Second
)

func (w *world) drawSettings() settings {
	W := pick[time.Duration](w, 2, 3, 4) * time.Second
	s := settings{
		W: W, G: 2 * W, L: pick(w, 4*time.Second, 8*time.Second, longestLease), S: pick[time.Duration](w, 6, 8, 16) * time.Second,
		R: 2*W + pick[time.Duration](w, 2, 8)*time.Second, static: w.traits.static && w.chance(0.7),
		commitInterval: pick(w, 300*time.Millisecond, time.Second), flushInterval: pick(w, 0, time.Second, 3*time.Second, 8*time.Second),
		flushCount: pick(w, 3, 1000), portion: pick(w, 1, 500, 0, 0, 0), deadLetterBuffer: pick[int64](w, 1, 1000, 0, 0, 0),
		warm: w.chance(0.7), reopen: w.chance(0.6), deltaMax: pick[int32](w, 0, 1, 2, 16),
		maxCount: pick[int32](w, 2, 4, 7), maxBytes: pick[int32](w, 400, 100_000),
		window: pick[int64](w, 0, 2, 10, 40), storedBytes: pick[int64](w, 0, 0, 60, 120, 400), stopOnBad: w.traits.noDeadLetters,
		outOfRange: pick(w, claim.EarliestOutOfRange, claim.LatestOutOfRange, claim.StopOutOfRange),
	}
	w.drawAside(func() { s.eager = w.chance(0.15) })
	w.drawAside(func() { s.flushWrites = pick(w, 0, 0, 1, 2) })
	w.drawAside(func() {
		s.denseFrom = pick[int32](w, 0, 2, 3, 5, 64)
		s.compactInterval, s.compactDelay, s.segmentRetention = w.between(1, 15), w.between(3, 60), w.between(1, 10)
		s.compactBytes = pick[int64](w, 0, 0, 500, 3000)
	})
	if w.broken == keyForgotten { // the consequences must show within the run
		s.compactInterval, s.compactDelay = time.Second, 3*time.Second
	}
	w.drawAside(func() { s.send, s.callWrites = pick[int64](w, 0, 0, 1, 15_000), pick(w, 0, 1, 2) })
	return s
}
