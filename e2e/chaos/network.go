package chaos

import (
	"context"
	"time"

	"waterwheel/e2e/harness/proxy"
)

func (r *run) disturbDatabase(ctx context.Context) (bool, error) {
	return r.disturbLinks(ctx, "database", func(m *member) []*proxy.Link { return m.database })
}

func (r *run) disturbKafka(ctx context.Context) (bool, error) {
	return r.disturbLinks(ctx, "Kafka", func(m *member) []*proxy.Link { return m.kafka })
}

// disturbLinks disturbs a member's links to one of its servers for a while.
func (r *run) disturbLinks(ctx context.Context, server string, of func(*member) []*proxy.Link) (bool, error) {
	kind := []string{"cut", "cut now and then", "refused", "slow", "held and delivered", "held and lost", "without answers"}[r.random.IntN(7)]
	d := between(r.random, 500*time.Millisecond, 9*time.Second)
	if kind == "held and delivered" {
		// This time plus the server's own delay must stay below the grace of two write timeouts. Nothing guarantees that a write
		// executed later than that is stored only once.
		d = between(r.random, 100*time.Millisecond, r.options.WriteTimeout)
	}
	delay := between(r.random, 10*time.Millisecond, 800*time.Millisecond)
	return r.withMember(true, func(m *member) {
		r.note("consumer %d's link to the %s: %s, %.1fs", m.slot, server, kind, d.Seconds())
		links := of(m)
		switch kind {
		case "cut now and then":
			for end := time.Now().Add(d); time.Now().Before(end) && ctx.Err() == nil; sleep(ctx, delay) {
				each(links, (*proxy.Link).Cut)
			}
		case "refused":
			each(links, (*proxy.Link).Refuse)
			sleep(ctx, d)
		case "slow":
			each(links, func(l *proxy.Link) { l.Delay(delay) })
			sleep(ctx, d)
		case "held and delivered":
			each(links, (*proxy.Link).Hold)
			sleep(ctx, d)
		case "held and lost":
			each(links, (*proxy.Link).Hold)
			sleep(ctx, d)
			each(links, (*proxy.Link).Cut)
		case "without answers":
			each(links, (*proxy.Link).LoseAnswers)
			sleep(ctx, d)
		default:
			each(links, (*proxy.Link).Cut)
		}
		r.restore(links)
	}), nil
}

// restore makes the links pass everything again.
func (r *run) restore(links []*proxy.Link) {
	for _, l := range links {
		if err := l.Restore(); err != nil {
			r.fault("%v", err)
		}
	}
}

func each(links []*proxy.Link, do func(*proxy.Link)) {
	for _, l := range links {
		do(l)
	}
}
