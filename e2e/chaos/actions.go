package chaos

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"syscall"
	"time"
)

// actions maps the name of a disturbance to its method. The loop of the run calls it. It reports whether it found something to
// disturb, and does anything that takes time in the background.
var actions = map[string]func(*run, context.Context) (bool, error){
	"kill":           (*run).killMember,
	"freeze":         (*run).freezeMember,
	"leave":          (*run).leave,
	"join":           (*run).join,
	"database":       (*run).disturbDatabase,
	"kafka":          (*run).disturbKafka,
	"broker-kill":    (*run).killBroker,
	"broker-restart": (*run).restartBroker,
	"grow":           (*run).grow,
	"reset":          (*run).reset,
	"recreate":       (*run).recreate,
	"database-kill":  (*run).killDatabase,
	"step-down":      (*run).stepDown,
	"update-meta":    (*run).updateMeta,
	"repair":         (*run).repair,
	"registry":       (*run).killRegistry,
}

// Names returns the names of all disturbances, sorted.
func Names() []string { return slices.Sorted(maps.Keys(actions)) }

// act tries the configured disturbances in random order and starts the first that finds something to disturb.
func (r *run) act(ctx context.Context) error {
	for _, i := range r.random.Perm(len(r.options.Actions)) {
		name := r.options.Actions[i]
		acted, err := actions[name](r, ctx)
		if err != nil {
			return err
		}
		if acted {
			r.result.Actions[name]++
			return nil
		}
	}
	return nil
}

// withMember picks a random free member, locks it, and calls work with it in the background. alive reports whether the member
// must have a process. withMember returns false if there is no such member.
func (r *run) withMember(alive bool, work func(m *member)) bool {
	if !r.standing.TryRLock() {
		return false
	}
	for _, i := range r.random.Perm(len(r.members)) {
		m := r.members[i]
		if !m.busy.TryLock() {
			continue
		}
		if (m.consumer != nil) != alive {
			m.busy.Unlock()
			continue
		}
		r.working.Go(func() {
			defer r.standing.RUnlock()
			defer m.busy.Unlock()
			work(m)
		})
		return true
	}
	r.standing.RUnlock()
	return false
}

// between returns a random duration of at least least and less than most.
func between(random *rand.Rand, least, most time.Duration) time.Duration {
	return least + time.Duration(random.Int64N(int64(most-least)))
}

func (r *run) killMember(ctx context.Context) (bool, error) {
	away := between(r.random, 0, 4*time.Second)
	return r.withMember(true, func(m *member) {
		r.note("kill consumer %d, back after %.1fs", m.slot, away.Seconds())
		m.kill()
		sleep(ctx, away)
		if err := m.start(); err != nil {
			r.fault("%v", err)
		}
	}), nil
}

// freezeMember stops a process for longer than its session timeout, and then continues it.
func (r *run) freezeMember(ctx context.Context) (bool, error) {
	session, err := time.ParseDuration(r.settings["KAFKA_SESSION_TIMEOUT"])
	if err != nil {
		return false, err
	}
	still := session + between(r.random, time.Second, 8*time.Second)
	return r.withMember(true, func(m *member) {
		r.note("freeze consumer %d for %.1fs", m.slot, still.Seconds())
		m.signal(syscall.SIGSTOP)
		sleep(ctx, still)
		m.signal(syscall.SIGCONT)
	}), nil
}

func (r *run) leave(ctx context.Context) (bool, error) {
	if r.alive() <= leastMembers {
		return false, nil
	}
	return r.withMember(true, func(m *member) {
		r.note("consumer %d leaves", m.slot)
		m.terminate(ctx)
	}), nil
}

func (r *run) join(context.Context) (bool, error) {
	return r.withMember(false, func(m *member) {
		r.note("consumer %d joins", m.slot)
		if err := m.start(); err != nil {
			r.fault("%v", err)
		}
	}), nil
}

// alive counts the free members that have a process. A busy member may be about to lose its process.
func (r *run) alive() int {
	n := 0
	for _, m := range r.members {
		if m.busy.TryLock() {
			if m.consumer != nil {
				n++
			}
			m.busy.Unlock()
		}
	}
	return n
}

// sleep waits for d, or until the context ends.
func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
