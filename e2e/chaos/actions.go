package chaos

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"time"

	"waterwheel/e2e/check"
	"waterwheel/e2e/harness"
	"waterwheel/e2e/harness/proxy"
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
	"database-kill":  (*run).killDatabase,
	"step-down":      (*run).stepDown,
	"update-meta":    (*run).updateMeta,
	"repair":         (*run).repair,
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
		m.restart()
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
		m.restart()
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

// commandPatience bounds a command of an operator. An edit of metas waits for a compaction, and for COMPACT_VISIBILITY_DELAY.
const commandPatience = 15 * time.Minute

// codeFailed is the exit code of a command that failed, for example because a server is away.
const codeFailed = 1

// updateMeta lets an operator edit the metas of a few series. A run of the command that fails has edited some of their buckets.
func (r *run) updateMeta(ctx context.Context) (bool, error) {
	first := r.random.IntN(r.options.Series)
	args := []string{
		"collection", "update-meta", "--yes", "--filter", fmt.Sprintf(`{"meta.id": {"$gte": %d, "$lt": %d}}`, first, first+10),
		"--update", fmt.Sprintf(`{"$set": {"meta.%s": %d}}`, check.EditedField, r.random.IntN(3)),
	}
	if r.random.IntN(2) == 0 {
		args = append(args, "--closed")
	}
	return r.operate(ctx, args), nil
}

// repair lets an operator look for doubled measurements and remove them. There are none to remove.
func (r *run) repair(ctx context.Context) (bool, error) {
	return r.operate(ctx, []string{"verify", "--repair", "--yes"}), nil
}

// operate runs a command of an operator in the background, if none is running. It may fail while a server is away. It must not find
// anything wrong.
func (r *run) operate(ctx context.Context, args []string) bool {
	if !r.operator.TryLock() {
		return false
	}
	r.note("an operator begins %s", strings.Join(args, " "))
	r.working.Go(func() {
		defer r.operator.Unlock()
		ctx, cancel := context.WithTimeout(ctx, commandPatience)
		defer cancel()
		code, output, err := r.command(ctx, args...)
		switch {
		case err != nil:
			r.note("the operator gave %s up: %v", args[0], err)
		case code == 0 || code == codeFailed:
			r.note("the operator's %s ended with code %d: %s", args[0], code, lastLine(output))
		default:
			r.fault("%s ended with code %d:\n%s", strings.Join(args, " "), code, output)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		if err == nil && code == 0 {
			r.result.Commands++
		}
	})
	return true
}

// command runs a command of the program until it ends, and returns its exit code and output.
func (r *run) command(ctx context.Context, args ...string) (code int, output string, err error) {
	c, err := harness.Start(r.options.Binary, r.settings, args...)
	if err != nil {
		return 0, "", err
	}
	defer c.Kill()
	code, err = c.Wait(ctx)
	return code, strings.TrimSpace(c.Log()), err
}

// lastLine returns the last line of an output.
func lastLine(output string) string { return output[strings.LastIndexByte(output, '\n')+1:] }

func (r *run) disturbDatabase(ctx context.Context) (bool, error) {
	return r.disturbLinks(ctx, "database", func(m *member) []*proxy.Link { return m.database })
}

func (r *run) disturbKafka(ctx context.Context) (bool, error) {
	return r.disturbLinks(ctx, "Kafka", func(m *member) []*proxy.Link { return m.kafka })
}

// disturbLinks disturbs a member's links to one of its servers for a while.
func (r *run) disturbLinks(ctx context.Context, server string, of func(*member) []*proxy.Link) (bool, error) {
	delay := between(r.random, 10*time.Millisecond, 800*time.Millisecond)
	kinds := []struct {
		name string
		do   func(*proxy.Link)
	}{
		{"cut", (*proxy.Link).Cut},
		{"cut now and then", (*proxy.Link).Cut},
		{"refused", (*proxy.Link).Refuse},
		{"slow", func(l *proxy.Link) { l.Delay(delay) }},
		{"held and delivered", (*proxy.Link).Hold},
		{"held and lost", (*proxy.Link).Hold},
		{"without answers", (*proxy.Link).LoseAnswers},
	}
	kind := kinds[r.random.IntN(len(kinds))]
	d := between(r.random, 500*time.Millisecond, 9*time.Second)
	switch kind.name {
	case "cut":
		d = 0
	case "held and delivered":
		// This time plus the server's own delay must stay below the grace of two write timeouts. Nothing guarantees that a write
		// executed later than that is stored only once.
		d = between(r.random, 100*time.Millisecond, r.options.WriteTimeout)
	}
	return r.withMember(true, func(m *member) {
		r.note("consumer %d's link to the %s: %s, %.1fs", m.slot, server, kind.name, d.Seconds())
		links, end := of(m), time.Now().Add(d)
		each(links, kind.do)
		for kind.name == "cut now and then" && time.Now().Before(end) && ctx.Err() == nil {
			sleep(ctx, delay)
			each(links, kind.do)
		}
		sleep(ctx, time.Until(end))
		if kind.name == "held and lost" {
			each(links, (*proxy.Link).Cut)
		}
		each(links, func(l *proxy.Link) {
			if err := l.Restore(); err != nil {
				r.fault("%v", err)
			}
		})
	}), nil
}

func each(links []*proxy.Link, do func(*proxy.Link)) {
	for _, l := range links {
		do(l)
	}
}
