package pipeline_test

import (
	"context"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/collection"
	"waterwheel/internal/mongodb"
	"waterwheel/internal/timeseries"
)

const day = 86400

// reconfigure decides whether operators change the collection's options in this run. They do so in one of four runs, and if a
// guard of such changes is removed. The collection then has an expiry.
func (w *world) reconfigure() {
	w.reconfigured = w.broken == upkeepUnwaited || w.broken == optionsUnlocked || w.broken == "" && *simOptions && w.chance(0.25)
	if !w.reconfigured {
		return
	}
	w.note("(trait) options that change")
	o := simCollection
	o.ExpireAfterSeconds = 7 * day
	raw := encoded(bson.D{
		{Key: "_id", Value: timeseries.DefinitionID},
		{Key: "version", Value: int32(1)},
		{Key: "timeField", Value: o.TimeField},
		{Key: "metaField", Value: o.MetaField},
		{Key: "granularity", Value: string(o.Granularity)},
		{Key: "bucketMaxSpanSeconds", Value: o.MaxSpanSeconds},
		{Key: "expireAfterSeconds", Value: o.ExpireAfterSeconds},
	})
	w.mongo.put(w.mongo.upkeep, "expiry", upkeepDocument(o.TTLSeconds()), nil)
	w.mongo.put(w.mongo.upkeep, "view", upkeepDocument(o.MaxSpanSeconds), nil)
	w.mongo.put(w.mongo.options, string(raw.Lookup("_id").Value), raw, nil)
	w.at(w.between(3, 20), w.reconfiguring)
}

// reconfiguring makes operators change the options again and again, sometimes two at once.
func (w *world) reconfiguring() {
	if !w.chaos || w.over {
		return
	}
	for range pick(w, 1, 1, 2) {
		w.startChange()
	}
	w.at(w.now+w.between(2, 40), w.reconfiguring)
}

// startChange runs a command that changes the options, as a process outside of any group. The process may die at any step.
func (w *world) startChange() {
	p := &process{
		began: w.now,
		w:     w, slot: -1, name: fmt.Sprintf("options %d", len(w.all)), settings: w.drawSettings(), group: w.group,
		tasks: map[*task]bool{}, runners: map[int32]*runner{},
	}
	w.all = append(w.all, p)
	by := w.drawChange()
	if w.chance(0.4) {
		w.at(w.now+w.between(0, 1), func() {
			if !p.dead {
				w.note("(met) a change of options cut off")
			}
			p.crash()
		})
	}
	p.spawn(func(t *task) {
		hold := func() { t.sendBy = w.now + 3*p.W } // like the context of the lock
		hold()
		change := collection.OptionsChange{
			Options: port{w: w, of: w.mongo.options}, Upkeep: simUpkeep{t}, WriteTimeout: p.W,
			Sleep: func(_ context.Context, d time.Duration) error {
				w.note("(met) a change waits for another's lock")
				t.sleep(d)
				hold()
				return nil
			},
		}
		before, after, err := change.Run(t.context(), by)
		w.logf("%s: %+v instead of %+v: %v", p.name, after, before, err)
		if err == nil && before != after {
			w.note("(met) options changed")
			if after.ExpireAfterSeconds < before.ExpireAfterSeconds && after.ExpireAfterSeconds > 0 {
				w.note("(met) an expiry shortened")
			}
		}
	}, p.crash)
}

// drawChange returns a random change, which is another expiry or a larger span.
func (w *world) drawChange() func(timeseries.Options) (timeseries.Options, error) {
	if w.chance(0.6) {
		expire := pick[int64](w, 0, day, 2*day, 7*day, 30*day)
		return func(o timeseries.Options) (timeseries.Options, error) {
			return o.Change(timeseries.Options{ExpireAfterSeconds: expire})
		}
	}
	g := pick(w, timeseries.Minutes, timeseries.Minutes, timeseries.Hours)
	return func(o timeseries.Options) (timeseries.Options, error) {
		if o.Granularity == timeseries.Hours {
			g = timeseries.Hours // the span does not shrink
		}
		return o.Change(timeseries.Options{Granularity: g, ExpireAfterSeconds: o.ExpireAfterSeconds})
	}
}

// followOptions makes a process follow the options of the collection, as the program does.
func (p *process) followOptions() {
	w := p.w
	p.options = w.mongo.definition
	if !w.reconfigured {
		return
	}
	seen := int32(0)
	w.drawAside(func() {
		p.spawn(func(t *task) {
			for {
				definition, err := collection.ReadDefinition(t.context(), p.store.Ports.Options)
				if o, version := definition.Options, definition.Version; err == nil && version > seen {
					var covered bool
					if covered, err = collection.Covers(t.context(), simUpkeep{t}, o); err == nil && covered {
						if o.MaxSpanSeconds > p.options.MaxSpanSeconds {
							w.note("(met) a larger span followed")
						}
						seen, p.options, w.followed = version, o, max(w.followed, o.Span())
						p.store.SetCollection(o)
						w.checkUpkeep()
					}
				}
				t.sleep(w.between(0.5, 3))
			}
		}, nil)
	})
}

// followed returns the options that the process's workers use. An edit by hand applies at once.
func (p *process) followed() timeseries.Options {
	if !p.w.reconfigured || p.w.mongo.definition != simCollection {
		return p.w.mongo.definition
	}
	return p.options
}

// widest returns the largest span that a bucket may have by now, in milliseconds. It is the span of the definition, or of a
// definition that an owner followed before it was rolled back.
func (w *world) widest() int64 {
	if !w.reconfigured {
		return simCollection.Span()
	}
	return max(w.defined(1<<62).Span(), w.followed)
}

// defined returns the definition after the write seq.
func (w *world) defined(seq int64) timeseries.Options {
	for _, id := range w.mongo.options.order {
		if raw := w.mongo.options.asOf(id, seq); raw != nil && raw.Lookup("version").Type != 0 {
			d, err := timeseries.ReadDefinition(raw)
			if err != nil {
				panic(err)
			}
			return d.Options
		}
	}
	return simCollection
}

// checkUpkeep checks that the server deletes no bucket before its last measurement is as old as the definition says. The server's
// view must look far enough for every bucket, including those of an owner that follows a larger span.
func (w *world) checkUpkeep() {
	if !w.reconfigured || w.mongo == nil || len(w.mongo.options.order) == 0 {
		return
	}
	expiry, view := w.mongo.upkept("expiry"), w.mongo.upkept("view")
	for _, d := range []timeseries.Options{w.defined(1 << 62), w.defined(w.mongo.majority)} {
		if want := d.TTLSeconds(); expiry != 0 && (want == 0 || expiry < want) {
			w.fail("expiry", "buckets are deleted %d s after their minimum time, and %+v wants %d", expiry, d, want)
		}
		for _, p := range w.all {
			if p.dead || p.slot < 0 || p.options.MaxSpanSeconds == 0 {
				continue
			}
			if least := int64(p.options.MaxSpanSeconds) + d.ExpireAfterSeconds; expiry != 0 && int64(expiry) < least {
				w.fail("expiry", "buckets are deleted after %d s, and %s writes some that are to be kept for %d", expiry, p.name, least)
			}
			if view < p.options.MaxSpanSeconds {
				w.fail("view", "the view looks %d s far, and %s writes buckets of %d s", view, p.name, p.options.MaxSpanSeconds)
			}
		}
	}
}

// upkept returns a number of seconds that the server uses, as the primary has it.
func (m *mongod) upkept(id string) int32 {
	seconds, _ := m.upkeep.now(id).Lookup("seconds").AsInt64OK()
	return int32(seconds)
}

func upkeepDocument(seconds int32) bson.Raw { return encoded(bson.D{{Key: "seconds", Value: seconds}}) }

// isLock reports whether a filter is on the lock of the options.
func isLock(filter bson.Raw) bool { return filter.Lookup("token").Type != 0 }

// simUpkeep is a task's view of the server's upkeep.
type simUpkeep struct{ t *task }

// EvenExpiry implements collection.Upkeep. The server has one shard.
func (simUpkeep) EvenExpiry(context.Context) error { return nil }

// Expiry implements collection.Upkeep.
func (u simUpkeep) Expiry(ctx context.Context) (int32, error) { return u.read(ctx, "expiry") }

// ViewSpan implements collection.Upkeep.
func (u simUpkeep) ViewSpan(ctx context.Context) (int32, error) { return u.read(ctx, "view") }

// SetExpiry implements collection.Upkeep.
func (u simUpkeep) SetExpiry(ctx context.Context, seconds int32) error {
	return u.write(ctx, "expiry", seconds)
}

// SetViewSpan implements collection.Upkeep.
func (u simUpkeep) SetViewSpan(ctx context.Context, seconds int32) error {
	return u.write(ctx, "view", seconds)
}

// read asks the primary, which answers with its own value.
func (u simUpkeep) read(ctx context.Context, id string) (int32, error) {
	if _, err := (port{w: u.t.p.w, of: u.t.p.w.mongo.upkeep}).moment(ctx); err != nil {
		return 0, err
	}
	return u.t.p.w.mongo.upkept(id), nil
}

func (u simUpkeep) write(ctx context.Context, id string, seconds int32) error {
	w := u.t.p.w
	execute := func(int) (int, *mongodb.WriteError) {
		w.logf("%s sets the %s to %d s", u.t.p.name, id, seconds)
		w.mongo.put(w.mongo.upkeep, id, upkeepDocument(seconds), nil)
		return 1, nil
	}
	if w.broken == upkeepUnwaited {
		w.at(w.now+w.between(0, 5), func() { execute(0) })
		return nil
	}
	reply, err := (port{w: w, of: w.mongo.upkeep}).write(ctx, 1, execute, func(int) bool { return false })
	if err == nil {
		err = reply.Unconfirmed
	}
	return err
}
