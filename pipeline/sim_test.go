package pipeline_test

import (
	"bytes"
	"crypto/sha256"
	"flag"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"waterwheel/internal/claim"
)

// The simulation runs the real worker, catalog, decoder and sink in a world made up of
//
//	sim_world, sim_task     time, chance, coroutines
//	sim_mongo, _query       MongoDB; sim_port, sim_command: the way there and back; sim_shards: several shards
//	sim_kafka, sim_group    Kafka: logs, and the coordinator
//	sim_registry            the schema registry
//	sim_process, _member    a process and its membership; sim_runner, _action, _committer: what drives its workers
//	sim_traits              what a whole run is like
//	sim_schedule            what goes wrong, by name; sim_operator, _series, _alarm, _double, _repair, _options: what people do
//	sim_course              what led to what, for the table in doc.go
//	sim_coverage            every danger that the protocol is made for, and what counts it
//	sim_check, sim_sent     what must hold all the while
//	sim_mutation            guards taken away
//	sim_defect              mistakes made in the source of what it shares with the program
//
// A run is told by its seed alone, and a failing one replays with -sim.trace.

// enoughRuns are so many that each danger must come up.
const enoughRuns = 2000

var (
	simRuns         = flag.Int("sim.runs", 2000, "runs of TestSimulation; with the race detector a tenth of them")
	simSeed         = flag.Uint64("sim.seed", 1, "seed of the first run")
	simMutationRuns = flag.Int("sim.mutationruns", 5000, "runs in which each mutation must be noticed")
	simDefects      = flag.Bool("sim.defects", false, "build the simulation with defects in the source as well")
	simOptions      = flag.Bool("sim.options", true, "let operators change the options of the collection in one of four runs")
	simWith         = flag.String("sim.with", "", "name of a schedule that every run has")
	simTrace        = flag.Bool("sim.trace", false, "print what happens")
)

// run lets a world live: first with all that can go wrong, then in peace, until everything is committed.
func (w *world) run() {
	defer w.end()
	for slot := range w.traits.processes {
		w.start(slot)
	}
	w.producing()
	w.at(3*time.Second, w.acting)
	w.at(3*time.Second, w.attending)
	calm := w.between(40, 160)
	w.at(calm, w.calm)
	calmSince := time.Duration(-1)
	for !w.over && len(w.queue) > 0 {
		w.step()
		switch {
		case w.chaos:
		case calmSince < 0 && w.now > w.eased+2*time.Minute:
			w.fail("progress", "not everything is committed two minutes after the last mishap")
		case w.now > w.eased+6*time.Minute: // it works in small steps, beside compactions
			w.fail("progress", "a repair has not ended six minutes after the last mishap")
		case calmSince < 0 && w.now > calm+25*time.Second && w.committed() && w.owned():
			calmSince = w.now
		case calmSince >= 0 && w.now > calmSince+5*time.Second && !w.repairing(calmSince):
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
	if w.chaos {
		w.chaos, w.eased = false, w.now
	}
	w.logf("--- calm")
	if w.kafka.topic == ([16]byte{}) {
		w.kafka.create()
	}
	w.takeOverAgain()
	alive := false
	for _, p := range w.all {
		p.cut, p.paused, p.zombie, p.deaf, p.crashIn, p.evictIn = 0, 0, 0, 0, 0, nil
		if p.group != w.group || p.term {
			p.crash()
		}
		alive = alive || !p.dead && p.slot >= 0
	}
	if !alive && !w.maintained {
		w.start(0)
	}
	w.at(w.now+10*time.Second, w.calm)
}

// committed reports whether every partition is committed to its end, by owners that know its topic.
func (w *world) committed() bool {
	for p := range w.kafka.partitions {
		commit := w.group.read(p)
		of, ok := claim.ParseProvenance(commit.metadata)
		if former := ok && of.TopicID != w.kafka.topic && w.broken != noTopicID; former || commit.offset != w.kafka.log(p).end {
			return false
		}
	}
	return true
}

// owned reports whether a process has claimed each partition. It finishes the open compactions of the partition.
func (w *world) owned() bool {
	for p := range w.kafka.partitions {
		if !slices.ContainsFunc(w.all, func(of *process) bool {
			r := of.runners[p]
			return r != nil && !of.dead && r.worker.Status(of.clock()).Running
		}) {
			return false
		}
	}
	return true
}

// TestSimulation makes many runs, and prints in how many of them each schedule came up, each trait was on, and some
// situations were met.
func TestSimulation(t *testing.T) {
	met := simulateMany(t, func(seed uint64) *world { return simulate(seed, "") })
	if met.made < enoughRuns {
		return
	}
	for _, s := range schedules {
		if met.runs[s.name] == 0 {
			t.Errorf("no run had the schedule %q", s.name)
		}
	}
	met.covered(t)
	met.followed(t)
}

// simulateMany makes the runs that the flags ask for, and prints what was met in them.
func simulateMany(t *testing.T, simulate func(seed uint64) *world) *tally {
	began, met := time.Now(), &tally{runs: map[string]int{}, times: map[string]int{}, answers: map[answer]int{}, made: uint64(*simRuns)}
	if underRace {
		met.made = (met.made + 9) / 10
	}
	var next atomic.Uint64
	var workers sync.WaitGroup
	for range workersOf(*simTrace) {
		workers.Go(func() {
			for n := next.Add(1) - 1; n < met.made && !t.Failed(); n = next.Add(1) - 1 {
				w := simulate(*simSeed + n)
				met.add(w)
				if w.violation != "" {
					t.Errorf("seed %d: %s\n%sreplay: go test ./pipeline -run %s$ -sim.runs 1 -sim.seed %d -sim.trace",
						w.seed, w.violation, w.stack, t.Name(), w.seed)
				}
			}
		})
	}
	workers.Wait()
	t.Logf("seeds %d to %d, %v", *simSeed, *simSeed+met.made-1, time.Since(began).Round(time.Millisecond))
	for _, what := range sortedKeys(met.runs) {
		t.Logf("%7d runs %8d times  %s", met.runs[what], met.times[what], what)
	}
	return met
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
	answers     map[answer]int
	made        uint64 // runs
}

func (y *tally) add(w *world) {
	y.mu.Lock()
	defer y.mu.Unlock()
	for what, times := range w.seen {
		y.runs[what]++
		y.times[what] += times
	}
	for a, times := range w.answers {
		y.answers[a] += times
	}
}

// simulate makes one run.
func simulate(seed uint64, broken mutation) *world {
	w := newWorld(seed, broken, traceOut())
	w.run()
	return w
}

// traceOut is where a run is written to. Nil means nowhere.
func traceOut() io.Writer {
	if *simTrace {
		return os.Stdout
	}
	return nil
}

// TestSimulationOfLeavers is TestSimulation with members that say to the group that they stop, and work on until it has given their
// partitions to others: also while it waits for a member that has died.
func TestSimulationOfLeavers(t *testing.T) {
	met := simulateMany(t, func(seed uint64) *world {
		w := newWorld(seed, "", traceOut())
		w.announced = true
		w.kinds = append(w.kinds, leavesBesideDead, leavesBesideDead)
		w.run()
		return w
	})
	for _, row := range []string{
		leavesBesideDead.name, "(met) member that leaves while the group waits for a dead one", "(met) member that leaves before the next generation",
		"(met) member that leaves in the next generation", "(met) partition handed over in the next generation", "(met) clean hand-over",
		"(met) commit taken while the group joins", "(met) hand-over that the lease is too short for",
	} {
		if met.runs[row] == 0 && met.made >= enoughRuns {
			t.Errorf("no run had %q", row)
		}
	}
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
