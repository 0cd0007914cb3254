package chaos

import (
	"context"
	"time"

	"waterwheel/e2e/harness"
)

func (r *run) killBroker(ctx context.Context) (bool, error) {
	return r.disturbBroker(ctx, "kill", func(b *harness.Broker) error {
		b.Kill()
		return nil
	})
}

func (r *run) restartBroker(ctx context.Context) (bool, error) {
	return r.disturbBroker(ctx, "restart", func(b *harness.Broker) error { return b.Stop(ctx) })
}

// disturbBroker ends one broker and starts it again. Only one broker is down at a time. The next disturbance waits until all
// replicas are in sync, because the cluster itself must not lose an acknowledged record.
func (r *run) disturbBroker(ctx context.Context, how string, end func(*harness.Broker) error) (bool, error) {
	brokers := r.cluster.Brokers()
	b := brokers[r.random.IntN(len(brokers))]
	away := between(r.random, 0, 6*time.Second)
	if !r.broker.TryLock() {
		return false, nil
	}
	r.working.Go(func() {
		defer r.broker.Unlock()
		r.note("%s broker %d, back after %.1fs", how, b.ID(), away.Seconds())
		if err := end(b); err != nil {
			r.note("%v", err)
		}
		sleep(ctx, away)
		if err := b.Start(); err != nil {
			r.fault("%v", err)
			return
		}
		ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
		defer cancel()
		if err := r.cluster.AwaitBrokers(ctx); err != nil {
			r.fault("%v", err)
		}
	})
	return true, nil
}

func (r *run) killDatabase(ctx context.Context) (bool, error) {
	away := between(r.random, 0, 5*time.Second)
	process := r.random.IntN(len(r.database.processes))
	r.note("kill process %d of the database, back after %.1fs", process, away.Seconds())
	r.database.kill(process)
	sleep(ctx, away)
	return true, r.database.start(ctx, process)
}
