package pipeline_test

import (
	"container/heap"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"time"
)

// world is everything outside the code under test: a discrete clock, Kafka, MongoDB, the dead-letter topic, operators, and the
// processes. Only one goroutine runs at a time, and all random numbers come from one seed.
type world struct {
	seed  uint64
	rnd   *rand.Rand
	side  *rand.Rand // random numbers for drawAside
	aside bool       // the present event draws aside, and so do the events it schedules
	now   time.Duration
	queue moments
	n     int // number of events scheduled so far
	chaos bool
	over  bool          // a violation was found
	eased time.Duration // when the chaos ended, or when an operator was last needed after it

	announced    bool  // members announce to the group that they stop
	maintained   bool  // an operator has stopped everything
	reconfigured bool  // operators change the options of the collection
	followed     int64 // the largest span that an owner has followed, in milliseconds

	traits traits
	broken mutation
	mongo  *mongod
	kafka  *broker
	// registry has the schemas of records. Nil means that records name no schemas.
	registry    *schemaRegistry
	deadLetters map[deadLetterKey]bool
	group       *coordinator
	checks      checks

	slots    map[int]*process // the present process of each slot
	all      []*process
	repairer *process       // the last repair
	repairs  int            // number of repeated repairs
	kinds    []*schedule    // schedules of this run
	answers  map[answer]int // number of actions by event
	seen     map[string]int
	// firstClaims holds, by partition, the time when a claim that found no document was last sent.
	firstClaims map[int32]time.Duration

	violation string
	stack     []byte    // stack of a panic
	trace     io.Writer // Nil means no trace.
	log       *slog.Logger
}

// moment is a scheduled event. Events of the same time come in random order.
type moment struct {
	at  time.Duration
	tie uint64
	n   int
	do  func()
}

type moments []moment

func (m moments) Len() int      { return len(m) }
func (m moments) Swap(i, j int) { m[i], m[j] = m[j], m[i] }
func (m moments) Less(i, j int) bool {
	if m[i].at != m[j].at {
		return m[i].at < m[j].at
	}
	if m[i].tie != m[j].tie {
		return m[i].tie < m[j].tie
	}
	return m[i].n < m[j].n
}
func (m *moments) Push(x any) { *m = append(*m, x.(moment)) }
func (m *moments) Pop() any {
	last := (*m)[len(*m)-1]
	*m = (*m)[:len(*m)-1]
	return last
}

// at schedules an event.
func (w *world) at(t time.Duration, do func()) {
	w.n++
	if follows := do; w.aside {
		do = func() { w.drawAside(follows) }
	}
	heap.Push(&w.queue, moment{max(t, w.now), w.rnd.Uint64(), w.n, do})
}

// drawAside calls do with random numbers of its own, so that the random numbers of all other events stay the same.
func (w *world) drawAside(do func()) {
	if w.aside {
		do()
		return
	}
	w.rnd, w.side, w.aside = w.side, w.rnd, true
	defer func() { w.rnd, w.side, w.aside = w.side, w.rnd, false }()
	do()
}

// step runs the next event.
func (w *world) step() {
	m := heap.Pop(&w.queue).(moment)
	w.now = max(w.now, m.at)
	m.do()
}

// logf adds a line to the trace.
func (w *world) logf(format string, args ...any) {
	if w.trace != nil {
		fmt.Fprintf(w.trace, "%9.3f  %s\n", w.now.Seconds(), fmt.Sprintf(format, args...))
	}
}

// fail records the first violation, which ends the run.
func (w *world) fail(invariant, format string, args ...any) {
	if w.over {
		return
	}
	w.over = true
	w.violation = invariant + ": " + fmt.Sprintf(format, args...)
	w.logf("VIOLATION %s", w.violation)
}

// note counts an event of interest.
func (w *world) note(what string) { w.seen[what]++ }

// chance returns true with probability p.
func (w *world) chance(p float64) bool { return p > 0 && w.rnd.Float64() < p }

// mishap is a chance that is zero after the chaos.
func (w *world) mishap(p float64) bool { return w.chaos && w.chance(p) }

// between returns a random duration between low and high seconds.
func (w *world) between(low, high float64) time.Duration {
	return time.Duration((low + w.rnd.Float64()*(high-low)) * float64(time.Second)).Round(time.Millisecond)
}

// pick returns a random one of the values.
func pick[T any](w *world, of ...T) T { return of[w.rnd.IntN(len(of))] }

// traceLog writes the worker's log lines to the trace.
type traceLog struct{ w *world }

// Write implements io.Writer for one line.
func (t traceLog) Write(line []byte) (int, error) {
	fmt.Fprintf(t.w.trace, "%9.3f      %s", t.w.now.Seconds(), line)
	return len(line), nil
}

func (w *world) logger() *slog.Logger {
	if w.trace == nil {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(slog.NewTextHandler(traceLog{w}, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey || a.Key == slog.LevelKey || a.Key == "topic" {
			return slog.Attr{}
		}
		return a
	}}))
}
