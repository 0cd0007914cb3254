package pipeline_test

import (
	"context"
	"iter"
	"time"

	"waterwheel/pipeline"
)

// task is a coroutine of a process. It runs until it waits, and nothing else runs in the meantime. The blocking methods of the
// sink run in it unchanged.
type task struct {
	p     *process
	r     *runner         // Nil means that the task has no partition.
	what  pipeline.Action // the action that the task carries out. Nil means no action.
	next  func() (struct{}, bool)
	stop  func()
	yield func(struct{}) bool
	then  func() // called after the task's end
	// sendBy is the deadline of all its writes. Zero means that each write has its own.
	sendBy time.Duration
	// handed holds the documents of writes that may have been executed, or may be later.
	handed map[string]bool
	finds  int // number of queries of buckets

	running, ended  bool
	sleeping, woken bool
	turn            int // number of waits. A wake-up for an earlier wait is ignored.
	wake            func(answer any, answered bool)
	answer          any
	answered        bool
}

// killed is the panic that unwinds a task whose process is dead or whose generation is over.
type killed struct{}

// spawn starts a task at once. It calls then after the task's end, unless the task was killed.
func (p *process) spawn(body func(*task), then func()) *task {
	t := &task{p: p, then: then}
	t.next, t.stop = iter.Pull(func(yield func(struct{}) bool) {
		defer func() {
			if r := recover(); r != nil && r != (killed{}) {
				panic(r)
			}
		}()
		t.yield = yield
		body(t)
	})
	p.tasks[t] = true
	p.w.at(p.w.now, func() { p.run(t.step) })
	return t
}

// step runs the task until it waits again.
func (t *task) step() {
	if t.ended {
		return
	}
	t.running = true
	_, more := t.next()
	t.running = false
	if !more && !t.ended {
		t.ended = true
		delete(t.p.tasks, t)
		if t.then != nil {
			t.then()
		}
	}
}

// kill ends the task where it waits. Its requests remain in flight.
func (t *task) kill() {
	if t.ended || t.running {
		return
	}
	t.ended = true
	delete(t.p.tasks, t)
	t.stop()
}

// await waits for the answer to ask, for at most the timeout. It returns false if none came.
func (t *task) await(timeout time.Duration, ask func(answer func(any))) (any, bool) {
	t.turn++
	turn, w := t.turn, t.p.w
	t.wake = func(answer any, answered bool) {
		t.p.run(func() {
			if t.ended || t.turn != turn {
				return
			}
			t.turn++
			t.answer, t.answered = answer, answered
			t.step()
		})
	}
	wake := t.wake
	w.at(w.now+timeout, func() { wake(nil, false) })
	ask(func(answer any) { wake(answer, true) })
	if !t.yield(struct{}{}) {
		panic(killed{})
	}
	return t.answer, t.answered
}

// sleep waits, unless the task was woken since its last sleep.
func (t *task) sleep(d time.Duration) {
	if t.woken {
		d = 0
	}
	t.woken, t.sleeping = false, true
	t.await(d, func(func(any)) {})
	t.sleeping = false
}

// wakeSleeper ends the present sleep, or the next one.
func (t *task) wakeSleeper() {
	t.woken = true
	if t.sleeping {
		t.wake(nil, false)
	}
}

// ask makes one request to Kafka. The request is executed at once, later or never, and answered once or never.
func (t *task) ask(timeout time.Duration, execute func() any) (any, bool) {
	return t.askLater(timeout, func(reply func(any)) { reply(execute()) })
}

// askLater is ask for requests that the broker may hold before it answers.
func (t *task) askLater(timeout time.Duration, execute func(reply func(any))) (any, bool) {
	w, p := t.p.w, t.p
	p.called()
	return t.await(timeout, func(answer func(any)) {
		cut := p.cut > w.now && (t.what == nil || !p.only)
		if w.mishap(w.traits.lossy) || cut && w.mishap(0.7) {
			w.note("(met) lost requests")
			return
		}
		delay := w.between(0, 0.02)
		if w.mishap(w.traits.late) {
			delay = w.between(0, 3)
		}
		lost := w.mishap(w.traits.lossy) || cut && w.chaos
		w.at(w.now+delay, func() {
			execute(func(v any) {
				if lost {
					w.note("(met) lost answers")
					return
				}
				w.at(w.now+w.between(0, 0.02), func() { answer(v) })
			})
		})
	})
}

type taskKey struct{}

// context passes the task to the ports.
func (t *task) context() context.Context {
	return context.WithValue(context.Background(), taskKey{}, t)
}

func taskOf(ctx context.Context) *task { return ctx.Value(taskKey{}).(*task) }

// called counts a call. The process may die during the call, before or after its execution.
func (p *process) called() {
	if p.crashIn == 0 {
		return
	}
	if p.crashIn--; p.crashIn == 0 {
		p.w.at(p.w.now+p.w.between(0, 0.15), func() {
			if p.w.chaos {
				p.w.crashAndRestart(p, p.w.between(0.1, 20))
			}
		})
	}
}
