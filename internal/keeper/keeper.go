package keeper

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"waterwheel/internal/claim"
	"waterwheel/internal/mongodb"
	"waterwheel/internal/record"
	"waterwheel/sink"
)

var (
	errFull    = errors.New("more hours than may be held")
	errDropped = errors.New("a rollup level was dropped during the work on it")
)

// Options configure a Keeper.
type Options struct {
	// Rollups returns the rollups of the time series of each topic, as of now.
	Rollups func() map[string]*sink.Rollups
	// Interval is the time between two passes of a partition.
	Interval time.Duration
	// Share is the fraction of its time that the keeper works, above zero and at most 1.
	Share float64
	// Partitions returns the partitions that this process owns now.
	Partitions func() []Partition
	// Nested returns the nested documents of a time series. Nil means that it has none.
	Nested  func(series string) *Nested
	Metrics *Metrics
	Log     *slog.Logger
}

// Keeper maintains the rollups of the partitions that a process owns.
type Keeper struct {
	o        Options
	schedule map[record.Partition]*turn
	noted    map[string]time.Time // when the notes of a time series were last read
	computed map[string]bool      // notes whose rows were computed since queries see the whole edit
	rolled   map[string]bool      // time series that are known to have levels
	told     bool                 // a failure was logged, and no pass has succeeded since
}

// turn is the schedule of a partition.
type turn struct {
	next     time.Time
	complete time.Time // when its rows were last complete, or when it was assigned
	most     int64     // offsets of a pass. A pass that failed is repeated with half as many, so that it does not fail for ever.
}

// New returns a keeper that does nothing yet.
func New(o Options) *Keeper {
	o.Metrics.interval.Set(o.Interval.Seconds())
	return &Keeper{o: o, schedule: map[record.Partition]*turn{}, noted: map[string]time.Time{}, computed: map[string]bool{}, rolled: map[string]bool{}}
}

const (
	// look is how often the keeper looks for work.
	look = time.Second
	// noteInterval is how often it looks for notes.
	noteInterval = time.Minute
	// retryAfter is the longest time after a failure before a pass is tried again.
	retryAfter = time.Minute
	// fewestOffsets is the smallest limit of a pass.
	fewestOffsets = 1000
	// hurryAfter is how many intervals a partition may be behind before the keeper stops resting.
	hurryAfter = 2
)

// Run maintains rollups until the context ends.
func (k *Keeper) Run(ctx context.Context) {
	defer func() {
		for _, r := range k.o.Rollups() {
			r.Close()
		}
	}()
	tick := time.NewTicker(min(look, k.o.Interval))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		k.notes(ctx)
		k.passes(ctx)
	}
}

// passes runs the passes that are due. The partition that has waited longest comes first.
func (k *Keeper) passes(ctx context.Context) {
	for ctx.Err() == nil {
		owned := k.owned()
		if len(owned) == 0 {
			return
		}
		due := slices.MinFunc(owned, func(a, b *Partition) int {
			return cmp.Or(k.turn(a).next.Compare(k.turn(b).next), nameOf(a).Compare(nameOf(b)))
		})
		if k.turn(due).next.After(time.Now()) {
			return
		}
		k.pass(ctx, due)
	}
}

// owned returns the partitions that this process owns now. It forgets the turns of partitions that it no longer owns.
func (k *Keeper) owned() (owned []*Partition) {
	seen, all, rollups := time.Now(), k.o.Partitions(), k.o.Rollups()
	present := map[record.Partition]bool{}
	var oldest time.Time
	for i := range all {
		p := &all[i]
		p.Seen = seen
		if rollups[p.Source.Topic] == nil {
			continue
		}
		present[nameOf(p)] = true
		owned = append(owned, p)
		if t := k.turn(p); oldest.IsZero() || t.complete.Before(oldest) {
			oldest = t.complete
		}
	}
	for name := range k.schedule {
		if !present[name] {
			delete(k.schedule, name)
		}
	}
	k.o.Metrics.setComplete(oldest)
	return owned
}

func nameOf(p *Partition) record.Partition {
	return record.Partition{Topic: p.Source.Topic, Number: p.Source.Partition}
}

// turn returns the turn of a partition. Its first pass comes within an interval, at a time derived from its name. So the first
// passes of many consumers are spread out.
func (k *Keeper) turn(p *Partition) *turn {
	name := nameOf(p)
	t := k.schedule[name]
	if t == nil {
		now := time.Now()
		t = &turn{complete: now, most: allOffsets, next: now.Add(time.Duration(float64(k.o.Interval) * float64(hashOf(p.ID)%1000) / 1000))}
		k.schedule[name] = t
	}
	return t
}

// pass runs one pass.
func (k *Keeper) pass(ctx context.Context, p *Partition) {
	t, began := k.turn(p), time.Now()
	r := k.o.Rollups()[p.Source.Topic]
	w, err := k.work(ctx, r, t)
	if err == nil && w == nil { // Without levels nothing can be late.
		t.next, t.complete = began.Add(k.o.Interval), began
		return
	}
	complete := false
	if err == nil {
		complete, err = w.pass(ctx, p, t.most)
		k.o.Metrics.frozen.Add(float64(w.frozen))
	}
	switch {
	case ctx.Err() != nil:
	case errors.Is(err, errDropped): // The next pass is without the level.
		t.next = time.Now()
	case errors.Is(err, claim.ErrOtherOwner): // The partition was reassigned, or the claim is being renewed.
		t.next = time.Now().Add(min(retryAfter, k.o.Interval))
	case err != nil:
		if w != nil && w.tried > 0 {
			t.most = max(w.tried/2, fewestOffsets)
		}
		t.next = time.Now().Add(min(retryAfter, k.o.Interval))
		k.o.Metrics.passes.WithLabelValues(passFailed).Inc()
		k.failed(err, r.Name(), "topic", p.Source.Topic, "partition", p.Source.Partition)
	default:
		k.o.Metrics.passes.WithLabelValues(passDone).Inc()
		if complete {
			t.most, t.next, t.complete = allOffsets, began.Add(k.o.Interval), began
		} else {
			t.most, t.next = min(t.most, allOffsets/2)*2, time.Now()
		}
		k.succeeded()
		if w.frozen > 0 {
			k.o.Log.Warn("late measurements are stored but not added to the rollups: other measurements of the same hours have expired or were deleted, so these hours cannot be computed again",
				"topic", p.Source.Topic, "partition", p.Source.Partition, "measurements", w.frozen)
		}
	}
}

// failed logs a failure of the work on a time series. It delays no rollups if the time series has none, as far as is known. Only a
// refused request may be the reason why the levels are unknown for long.
func (k *Keeper) failed(err error, series string, about ...any) {
	_, refused := errors.AsType[*mongodb.RefusedError](err)
	if k.told || !refused && !k.rolled[series] {
		k.o.Log.Debug("rollups are late", append(about, "err", err)...)
		return
	}
	k.told = true
	k.o.Log.Warn("rollups are late: a rollup pass failed and is repeated; measurements are still stored", append(about, "err", err)...)
}

func (k *Keeper) succeeded() {
	if k.told {
		k.told = false
		k.o.Log.Info("rollups recovered: a pass succeeded")
	}
}

// work prepares the work on all levels that the time series has, whether ROLLUP_LEVELS names them or not. The watermark of a
// partition is one for all levels. So a pass that left out a level would move it past measurements that this level lacks. Nil means
// that the time series has no levels.
func (k *Keeper) work(ctx context.Context, r *sink.Rollups, t *turn) (*work, error) {
	state, err := r.State(ctx)
	if err != nil {
		return nil, err
	}
	if k.rolled[r.Name()] = len(state.Levels) > 0; !k.rolled[r.Name()] {
		return nil, nil
	}
	w := newWork(r, state, k.o.Metrics)
	w.nested = k.o.Nested(r.Name())
	w.rest = func(ctx context.Context, worked time.Duration) error { return k.rest(ctx, worked, t) }
	return w, nil
}

func newWork(r *sink.Rollups, state sink.RollupState, m *Metrics) *work {
	return &work{
		rollups: r, state: state, metrics: m, now: time.Now, linger: noteLinger, most: mostHours, size: firstSeries, together: sink.MostTogether,
		rest: func(ctx context.Context, _ time.Duration) error { return ctx.Err() },
	}
}

// rest counts the time worked, and waits so that the keeper works no more than its share. It does not wait if the partition is
// behind.
func (k *Keeper) rest(ctx context.Context, worked time.Duration, t *turn) error {
	k.o.Metrics.seconds.Add(worked.Seconds())
	pause := time.Duration(float64(worked) * (1/k.o.Share - 1))
	if t != nil && time.Since(t.complete) > hurryAfter*k.o.Interval {
		pause = 0
	}
	if pause <= 0 {
		return ctx.Err()
	}
	select {
	case <-time.After(pause):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// notes computes the rows of series that commands have edited.
func (k *Keeper) notes(ctx context.Context) {
	for _, r := range k.o.Rollups() {
		if every := min(noteInterval, k.o.Interval); time.Since(k.noted[r.Name()]) < every || len(k.owned()) == 0 {
			continue
		}
		k.noted[r.Name()] = time.Now()
		if err := k.notesOf(ctx, r); err != nil && ctx.Err() == nil {
			k.failed(err, r.Name(), "collection", r.Name())
		}
	}
}

func (k *Keeper) notesOf(ctx context.Context, r *sink.Rollups) error {
	notes, err := r.Notes(ctx)
	if err != nil || len(notes) == 0 {
		return err
	}
	w, err := k.work(ctx, r, nil)
	if err != nil || w == nil {
		return err
	}
	for i := range notes {
		n := &notes[i]
		if k.computed[n.ID] && time.Since(n.Edited) < noteLinger { // due once more, later
			continue
		}
		whole, gone, err := w.note(ctx, n)
		if errors.Is(err, errDropped) { // It is read again without the level.
			return nil
		}
		if err != nil {
			return err
		}
		if delete(k.computed, n.ID); whole && !gone {
			k.computed[n.ID] = true
		}
	}
	k.succeeded()
	return nil
}

// Metrics count what keepers do.
type Metrics struct {
	passes   *prometheus.CounterVec
	stored   *prometheus.CounterVec
	frozen   prometheus.Counter
	seconds  prometheus.Counter
	interval prometheus.Gauge
	mu       sync.Mutex
	complete time.Time // the oldest time at which the rows of a partition were complete. Zero means that there are no partitions.
}

// NewMetrics returns new metrics. If reg is nil, they are not registered.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	m := &Metrics{
		passes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "waterwheel_rollup_passes_total", Help: "Passes that bring the rollups of a partition up to date, by outcome.",
		}, []string{"outcome"}),
		stored: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "waterwheel_rollup_rows_total", Help: "Rollup rows written.",
		}, []string{"level"}),
		frozen: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "waterwheel_rollup_frozen_total", Help: "Late measurements that are in no rollup, because their hours have expired, or because measurements of those hours were deleted.",
		}),
		seconds: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "waterwheel_rollup_work_seconds_total", Help: "Time spent on rollups, without pauses.",
		}),
		interval: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "waterwheel_rollup_interval_seconds", Help: "The setting ROLLUP_INTERVAL, the time between two passes over a partition.",
		}),
	}
	if reg == nil {
		return m
	}
	for _, outcome := range []string{passDone, passFailed} {
		m.passes.WithLabelValues(outcome)
	}
	behind := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "waterwheel_rollup_behind_seconds", Help: "Time since the rollups of the most delayed partition were complete.",
	}, m.behind)
	reg.MustRegister(m.passes, m.stored, m.frozen, m.seconds, m.interval, behind)
	return m
}

// Outcomes of a pass.
const (
	passDone   = "done"
	passFailed = "failed"
)

func (m *Metrics) rows(level string, n int) { m.stored.WithLabelValues(level).Add(float64(n)) }

func (m *Metrics) behind() float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.complete.IsZero() {
		return 0
	}
	return max(0, time.Since(m.complete).Seconds())
}

func (m *Metrics) setComplete(at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.complete = at
}
