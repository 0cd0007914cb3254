package pipeline_test

import (
	"bytes"
	"crypto/sha256"
	"flag"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"waterwheel/pipeline"
)

// The simulation runs the real worker, catalog, decoder and sink in a world made up of
//
//	sim_world, sim_task     time, chance, coroutines
//	sim_mongo, _query       MongoDB; sim_port, sim_command: the way there and back
//	sim_kafka, sim_group    Kafka: logs, and the coordinator
//	sim_process, _member    a process and its membership; sim_runner, _action, _committer: what drives its workers
//	sim_schedule, _operator what goes wrong, by name
//	sim_check, sim_sent     what must hold all the while
//	sim_mutation            guards taken away
//
// A run is told by its seed alone, and a failing one replays with -sim.trace.

var (
	simRuns         = flag.Int("sim.runs", 2000, "runs of TestSimulation; with the race detector a tenth of them")
	simSeed         = flag.Uint64("sim.seed", 1, "seed of the first run")
	simMutationRuns = flag.Int("sim.mutationruns", 3000, "runs in which each mutation must be noticed")
	simTrace        = flag.Bool("sim.trace", false, "print what happens")
)

// traits are what a whole run is like.
type traits struct {
	lossy, late, partial float64 // shares of requests and answers lost, late, and of bulks executed in parts
	commitLag            bool    // a committed offset can be read a little later only
	lag                  bool    // majority reads lag
	sessions             bool    // the server has sessions, and more than one member
	mixed                bool    // each process has its own settings
	static               bool    // some members are static
	startAtEnd           bool    // KAFKA_START is latest
	outOfRange           pipeline.OutOfRange
	bad, arrays, poison  float64 // shares of records
	memory               float64 // share of events at which memory is short
	partitions           int32
	processes            int
	pace                 float64 // longest time between two schedules, seconds
	settings             settings
}

// newWorld draws a world from a seed.
func newWorld(seed uint64, broken mutation, trace io.Writer) *world {
	w := &world{
		seed: seed, rnd: rand.New(rand.NewPCG(seed, 0)), broken: broken, chaos: true, trace: trace, slots: map[int]*process{},
		seen: map[string]int{}, letters: map[letterKey]bool{},
		checks: checks{values: map[int64]int{}, edited: map[string]bool{}},
	}
	w.log = w.logger()
	w.traits = traits{
		lossy: pick(w, 0, 0.03, 0.1), late: pick(w, 0.02, 0.1, 0.3), partial: pick(w, 0, 0.1, 0.3),
		commitLag: w.chance(0.5), lag: w.chance(0.5), sessions: w.chance(0.85), mixed: w.chance(0.5), static: w.chance(0.3),
		startAtEnd: w.chance(0.2), outOfRange: pick(w, pipeline.EarliestOutOfRange, pipeline.LatestOutOfRange),
		bad: pick(w, 0, 0.1), arrays: pick(w, 0, 0.3), poison: pick(w, 0, 0, 0.1), memory: pick(w, 0, 0, 0.1),
		partitions: pick[int32](w, 1, 1, 2), processes: pick(w, 1, 2, 2, 3), pace: pick(w, 3.0, 6, 15),
	}
	w.traits.settings = w.drawSettings()
	w.mongo, w.group = newMongod(w), newCoordinator(w, "group")
	w.kafka = newBroker(w)
	w.noteTraits()
	pool := schedules
	if w.chance(0.5) {
		pool = memberSchedules
	}
	for range pick(w, 1, 2, 3, 4, 8) {
		w.kinds = append(w.kinds, pick(w, pool...))
	}
	return w
}

// noteTraits counts the runs with each trait.
func (w *world) noteTraits() {
	t := &w.traits
	for name, on := range map[string]bool{
		"lost requests and answers": t.lossy > 0, "partial bulks": t.partial > 0, "commit lag": t.commitLag,
		"majority reads that lag": t.lag && t.sessions, "a server without sessions": !t.sessions,
		"settings that differ between owners": t.mixed, "static members": t.static, "start at the log's end": t.startAtEnd,
		"bad records": t.bad > 0, "arrays": t.arrays > 0, "records that MongoDB refuses": t.poison > 0,
		"short memory": t.memory > 0, "several partitions": t.partitions > 1, "several processes": t.processes > 1,
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

func (w *world) drawSettings() settings {
	W := pick[time.Duration](w, 2, 3, 4) * time.Second
	return settings{
		W: W, G: 2 * W, L: pick[time.Duration](w, 4, 8, 16) * time.Second, S: pick[time.Duration](w, 6, 8, 16) * time.Second,
		R: 2*W + pick[time.Duration](w, 2, 8)*time.Second, static: w.traits.static && w.chance(0.7),
		commitInterval: pick(w, 300*time.Millisecond, time.Second), flushInterval: pick(w, 0, time.Second, 3*time.Second, 8*time.Second),
		flushCount: pick(w, 3, 1000), warm: w.chance(0.7), reopen: w.chance(0.6), deltaMax: pick[int32](w, 0, 1, 2, 16),
		maxCount: pick[int32](w, 2, 4, 7), maxBytes: pick[int32](w, 400, 100_000),
	}
}

// run lets a world live: first with all that can go wrong, then in peace, until everything is committed.
func (w *world) run() {
	defer w.end()
	for slot := range w.traits.processes {
		w.start(slot)
	}
	w.producing()
	w.at(3*time.Second, w.acting)
	calm := w.between(40, 160)
	w.at(calm, w.calm)
	settled := time.Duration(-1)
	for !w.over && len(w.queue) > 0 {
		w.step()
		switch {
		case w.chaos:
		case w.now > calm+2*time.Minute:
			w.fail("progress", "not everything is committed two minutes after the last mishap")
		case settled < 0 && w.now > calm+25*time.Second && w.committed():
			settled = w.now
		case settled >= 0 && w.now > settled+5*time.Second:
			w.checks.last(w)
			return
		}
	}
}

// end turns a panic of the code under test into a violation, and leaves nothing behind.
func (w *world) end() {
	if r := recover(); r != nil {
		w.fail("panic", "%v", r)
		w.stack = debug.Stack()
	}
	for _, p := range w.all {
		p.crash()
	}
}

// calm ends the mishaps, again and again for those that have begun already.
func (w *world) calm() {
	w.chaos = false
	w.logf("--- calm")
	if w.kafka.topic == ([16]byte{}) {
		w.kafka.create()
	}
	w.takeOverAgain()
	alive := false
	for _, p := range w.all {
		p.cut, p.paused, p.zombie, p.deaf, p.crashIn, p.evictIn = 0, 0, 0, 0, 0, false
		if p.group != w.group || p.term {
			p.crash()
		}
		alive = alive || !p.dead
	}
	if !alive {
		w.start(0)
	}
	w.at(w.now+10*time.Second, w.calm)
}

// committed tells whether every partition is committed to its end.
func (w *world) committed() bool {
	for p := range w.kafka.partitions {
		if w.group.read(p).offset != w.kafka.log(p).end {
			return false
		}
	}
	return true
}

// TestSimulation makes many runs, and prints in how many of them each schedule came up, each trait was on, and some
// situations were met.
func TestSimulation(t *testing.T) {
	began, met := time.Now(), tally{runs: map[string]int{}, times: map[string]int{}}
	runs := uint64(*simRuns)
	if underRace {
		runs = (runs + 9) / 10
	}
	var next atomic.Uint64
	var workers sync.WaitGroup
	for range workersOf(*simTrace) {
		workers.Go(func() {
			for n := next.Add(1) - 1; n < runs && !t.Failed(); n = next.Add(1) - 1 {
				w := simulate(*simSeed+n, "")
				met.add(w)
				if w.violation != "" {
					t.Errorf("seed %d: %s\n%sreplay: go test ./pipeline -run TestSimulation$ -sim.runs 1 -sim.seed %d -sim.trace",
						w.seed, w.violation, w.stack, w.seed)
				}
			}
		})
	}
	workers.Wait()
	t.Logf("seeds %d to %d, %v", *simSeed, *simSeed+runs-1, time.Since(began).Round(time.Millisecond))
	for _, what := range sortedKeys(met.runs) {
		t.Logf("%7d runs %8d times  %s", met.runs[what], met.times[what], what)
	}
	for _, s := range schedules {
		if runs >= 1000 && met.runs[s.name] == 0 {
			t.Errorf("no run had the schedule %q", s.name)
		}
	}
}

// workersOf is how many runs are made side by side: one when they are to be read.
func workersOf(trace bool) int {
	if trace {
		return 1
	}
	return runtime.GOMAXPROCS(0)
}

// tally counts what was met, over all runs.
type tally struct {
	mu          sync.Mutex
	runs, times map[string]int
}

func (y *tally) add(w *world) {
	y.mu.Lock()
	defer y.mu.Unlock()
	for what, times := range w.seen {
		y.runs[what]++
		y.times[what] += times
	}
}

// simulate makes one run.
func simulate(seed uint64, broken mutation) *world {
	var trace io.Writer
	if *simTrace {
		trace = os.Stdout
	}
	w := newWorld(seed, broken, trace)
	w.run()
	return w
}

func TestSimulationRepeatsItself(t *testing.T) {
	for seed := range uint64(20) {
		var hashes [2][sha256.Size]byte
		for i := range hashes {
			var trace bytes.Buffer
			newWorld(seed, "", &trace).run()
			if trace.Len() < 1000 {
				t.Fatalf("seed %d: hardly anything happened:\n%s", seed, trace.String())
			}
			hashes[i] = sha256.Sum256(trace.Bytes())
		}
		if hashes[0] != hashes[1] {
			t.Fatalf("seed %d: two runs differ", seed)
		}
	}
}
