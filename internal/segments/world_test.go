package segments

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
)

// These are times in ticks. A write is executed within the grace after it is sent, or never.
const (
	writeTimeout = 8
	writeGrace   = 3 * writeTimeout
	leaseTime    = 8
	queryTime    = 10 // the longest time of a query
	replicaLag   = 4  // a query reads no older state than this
	clockError   = 2  // the largest difference between the clocks of owners and queries
	margin       = replicaLag + clockError + 1
	linger       = queryTime + clockError // from the end of a segment to its deletion
	chaosTime    = 340
	calmTime     = 600
	metas        = 3
)

// process is a coroutine. It tells for how many ticks it sleeps.
type process struct {
	next   func() (int, bool)
	stop   func()
	wake   int
	paused int
}

// request is a command that is sent and not yet executed.
type request struct {
	at      int // the time when it arrives
	execute func()
}

// step is an event in a tick: a process continues, or a command is executed.
type step struct {
	process *process
	execute func()
}

type world struct {
	random      *rand.Rand
	without     map[guard]bool
	now         int
	calm        bool // there are no faults
	chaos       bool
	expiring    float64 // how often a document expires
	clocks      bool    // the clocks are correct
	ahead       int     // the time from the reading of segments to the moment that shows the buckets (T)
	catching    float64
	loss        float64
	late        float64
	breaks      float64 // how often a connection breaks while the command is in flight
	spread      int     // the range of arrival times of late commands within the grace
	slow        float64 // how often an owner pauses between two steps of a compaction
	lazy        float64 // how often a flush, an operator or a repair pauses
	failure     float64 // how often there is a fault of the owner or the database
	habit       int     // the most frequent fault
	edits       int     // the longest time between operations
	many        int     // the most segments of one compaction
	often       int     // the longest time between compactions
	db          *database
	processes   []*process
	requests    []request
	steps       []step
	consumers   []*consumer
	owner       *consumer
	released    bool // by the last owner
	committed   int
	lowest      int   // the lowest value of committed since an operator began
	end         int   // the end of the log
	born        []int // the time when each position was produced
	compactions map[string]*told
	renamed     map[int]int  // a position must have at least this meta
	deleted     map[int]bool // by an operator or expiry, at any time
	sent        map[int]int  // until then an insert of a position by a flush may be executed
	gone        map[int]bool // deleted by an operator; it must not appear again
	doubled     map[int]int  // until then a position may be shown twice, because of the fault that a repair removes
	expired     map[int]bool
	faults      []string
	seen        map[event]int
	trace       bool
}

func newWorld(seed uint64, without ...guard) *world {
	w := &world{
		random: rand.New(rand.NewPCG(seed, 7)), without: map[guard]bool{}, seen: map[event]int{}, compactions: map[string]*told{},
		renamed: map[int]int{}, deleted: map[int]bool{}, gone: map[int]bool{}, doubled: map[int]int{}, sent: map[int]int{}, expired: map[int]bool{},
	}
	for _, g := range without {
		w.without[g] = true
	}
	w.catching = []float64{1, 0.5, 0.2}[w.random.IntN(3)]
	w.loss = []float64{0, 0.05, 0.15}[w.random.IntN(3)]
	w.late = []float64{0.05, 0.3, 0.6}[w.random.IntN(3)]
	w.breaks = []float64{0, 0.05, 0.3}[w.random.IntN(3)]
	w.spread = []int{writeGrace / 4, writeGrace, writeGrace}[w.random.IntN(3)]
	w.slow = []float64{0, 0.02, 0.1}[w.random.IntN(3)]
	w.lazy = []float64{0, 0.02, 0.1}[w.random.IntN(3)]
	w.failure = []float64{0.01, 0.03}[w.random.IntN(2)]
	w.habit = w.random.IntN(7)
	w.often = []int{2, 15}[w.random.IntN(2)]
	w.ahead = []int{60, 80, 120}[w.random.IntN(3)]
	w.expiring = []float64{0, 0, 0.02}[w.random.IntN(3)]
	w.many = []int{1, 6}[w.random.IntN(2)]
	w.clocks = !w.chance(0.1)
	w.edits = 40
	w.db = newDatabase(w)
	if seed%2 == 1 {
		for _, g := range without {
			w.provoke(g)
		}
	}
	return w
}

func (w *world) with(g guard) bool     { return !w.without[g] }
func (w *world) chance(p float64) bool { return w.random.Float64() < p }
func (w *world) saw(what event)        { w.seen[what]++ }
func (w *world) log(format string, args ...any) {
	if w.trace {
		fmt.Printf("%4d "+format+"\n", append([]any{w.now}, args...)...)
	}
}

func (w *world) fault(format string, args ...any) {
	w.faults = append(w.faults, fmt.Sprintf("%d: "+format, append([]any{w.now}, args...)...))
	w.log("FAULT "+format, args...)
}

// spawn starts a coroutine. Its sleep returns when the coroutine may continue, and does not return when it is killed.
func (w *world) spawn(run func(sleep func(int))) *process {
	p := &process{wake: w.now}
	type killed struct{}
	p.next, p.stop = iter.Pull(func(yield func(int) bool) {
		defer func() {
			if r := recover(); r != nil {
				if _, is := r.(killed); !is {
					panic(r)
				}
			}
		}()
		run(func(ticks int) {
			if !yield(ticks) {
				panic(killed{})
			}
		})
	})
	w.processes = append(w.processes, p)
	return p
}

// kill ends a coroutine.
func (p *process) kill() {
	p.stop()
	p.wake = never
}

const never = 1 << 30

// call is a command that was sent, and what its sender knows of it.
type call struct {
	w        *world
	sent     bool
	at       int
	executed bool
	lost     bool // the answer is lost
	broken   int  // the time when the connection breaks; 0 means never
	seq      int
	term     int
	err      string
	known    bool // answered in time and by a majority
}

// start sends a command. It is executed at some time within the grace, or never.
func (w *world) start(execute func() (seq int, err string)) *call {
	k := &call{w: w, sent: true, at: w.now}
	if w.chaos && w.chance(w.loss) {
		return k
	}
	delay := w.random.IntN(2)
	if w.chaos && w.chance(w.late) {
		delay = writeGrace - w.random.IntN(w.spread+1)
	}
	if w.chaos && w.chance(w.breaks) {
		k.broken, delay = w.now+1, writeGrace-w.random.IntN(w.spread+1)
	}
	w.requests = append(w.requests, request{w.now + delay, func() {
		if w.chaos && w.chance(w.loss/5) {
			k.err = refused
		} else {
			k.seq, k.err = execute()
		}
		k.executed, k.term, k.lost = true, w.db.term, w.chaos && w.chance(w.loss)
	}})
	return k
}

// answered reports whether the answer has arrived. A majority must have the write.
func (k *call) answered() bool {
	return k.executed && !k.lost && k.broken == 0 && k.term == k.w.db.term && k.w.db.major >= k.seq
}

// over reports whether no answer can arrive any more.
func (k *call) over() bool { return k.w.now > k.at+writeTimeout || k.broken > 0 && k.w.now >= k.broken }

// done reports whether the command is known to be executed and durable.
func (k *call) done() bool { return k.known && k.err == ok }

// await returns when each call was answered or its time is over. It returns true if all are done. After one of the hasty errors
// it does not wait for the other calls.
func (w *world) await(sleep func(int), calls []*call, hasty ...string) bool {
	for waiting := true; waiting; {
		waiting = false
		for _, k := range calls {
			if k.known || !k.sent {
				continue
			}
			k.known = k.answered()
			if k.known && slices.Contains(hasty, k.err) {
				return false
			}
			waiting = waiting || !k.known && !k.over()
		}
		if waiting {
			sleep(1)
		}
	}
	return !slices.ContainsFunc(calls, func(k *call) bool { return !k.done() })
}

// tick executes the commands that have arrived and lets the processes continue, in any order.
func (w *world) tick() {
	w.now++
	w.db.step()
	w.follow()
	w.steps = w.steps[:0]
	w.requests = slices.DeleteFunc(w.requests, func(r request) bool {
		if r.at <= w.now {
			w.steps = append(w.steps, step{execute: r.execute})
		}
		return r.at <= w.now
	})
	w.processes = slices.DeleteFunc(w.processes, func(p *process) bool { return p.wake == never })
	for _, p := range w.processes {
		if p.wake <= w.now && p.paused <= w.now {
			w.steps = append(w.steps, step{process: p})
		}
	}
	w.random.Shuffle(len(w.steps), func(i, j int) { w.steps[i], w.steps[j] = w.steps[j], w.steps[i] })
	for _, s := range w.steps {
		if s.process == nil {
			s.execute()
		} else if p := s.process; p.wake <= w.now && p.paused <= w.now { // it may have been killed or paused in this tick
			ticks, on := p.next()
			if p.wake = w.now + ticks; !on || ticks == never {
				p.kill()
			}
		}
	}
}

// run runs the simulation, waits until everything is stored and compacted, and checks the result.
func (w *world) run() {
	w.chaos = !w.calm
	w.assign()
	for range 2 {
		w.spawn(w.readers)
	}
	w.spawn(w.operators)
	w.spawn(w.repairs)
	for w.now < chaosTime {
		w.tick()
		if w.chance(0.3) {
			for range w.random.IntN(3) {
				w.end++
				w.born = append(w.born, w.now)
			}
		}
		if w.chaos && w.chance(w.failure) {
			w.disturb()
		}
		if w.chaos && w.chance(w.expiring) {
			w.expire()
		}
	}
	w.chaos = false
	for _, p := range w.processes {
		p.paused = 0
	}
	for w.now < chaosTime+calmTime && !w.finished() {
		w.tick()
	}
	for _, p := range w.processes {
		p.kill()
	}
	w.check()
}

// disturb causes one fault of the owner or the database.
func (w *world) disturb() {
	c := w.owner
	kind := w.random.IntN(7)
	if w.chance(0.5) {
		kind = w.habit
	}
	switch kind {
	case 0:
		w.log("election: %d back", w.db.last()-w.db.major)
		w.db.elect()
	case 1:
		w.log("%s crashes", c.name)
		c.kill()
		w.assign()
	case 2:
		c.pause(w.random.IntN(40))
		if w.chance(0.7) {
			w.assign()
		}
	case 3:
		w.log("%s is forgotten", c.name)
		w.assign()
	case 4:
		w.log("%s hands over", c.name)
		c.leaving = true
	case 5:
		c.pause(w.random.IntN(8))
	case 6:
		if w.committed > 0 {
			w.reset(w.random.IntN(w.committed + 1))
		}
	}
}

// reset moves the committed offset back.
func (w *world) reset(to int) {
	w.committed, w.lowest = to, min(w.lowest, to)
	w.log("reset to %d", to)
	w.saw(resetBack)
	for p := range w.gone {
		if p >= to {
			delete(w.gone, p)
		}
	}
	w.owner.kill()
	w.assign()
}
