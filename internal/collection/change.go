package collection

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/claim"
	"waterwheel/internal/mongodb"
	"waterwheel/internal/timeseries"
)

// ErrChangedMeanwhile means that another process changed the collection's options at the same time. Nothing was written.
var ErrChangedMeanwhile = errors.New("another process changed the collection's options at the same time: check the options with `waterwheel collection show`, and try again")

// Definition reads the present definition of the time series and its version. It returns ErrNotSetUp if there is no such time
// series.
func (t TimeSeries) Definition(ctx context.Context) (timeseries.Options, int32, error) {
	have, err := ReadDefinition(ctx, t.Ports().Options)
	return have.Options, have.Version, err
}

// SetBucketing changes the bucketing of the time series to a granularity, or to a custom span and rounding. Neither may become
// smaller, else it returns a *timeseries.Error. It returns the definitions before and after. Stored buckets stay as they are.
func (t TimeSeries) SetBucketing(ctx context.Context, to timeseries.Options) (before, after timeseries.Options, err error) {
	return t.change(ctx, func(o timeseries.Options) (timeseries.Options, error) {
		to.TimeField, to.MetaField, to.ExpireAfterSeconds = o.TimeField, o.MetaField, o.ExpireAfterSeconds
		return o.Change(to)
	})
}

// SetExpiry changes after how many seconds measurements are deleted. Zero means never. It returns the definitions before and after.
func (t TimeSeries) SetExpiry(ctx context.Context, seconds int64) (before, after timeseries.Options, err error) {
	return t.change(ctx, func(o timeseries.Options) (timeseries.Options, error) {
		return o.Change(timeseries.Options{ExpireAfterSeconds: seconds})
	})
}

// Covers reports whether expiry and view of the time series are right for buckets of these options.
func (t TimeSeries) Covers(ctx context.Context, o timeseries.Options) (bool, error) {
	s := t.series()
	s.options = o
	return Covers(ctx, s, o)
}

func (t TimeSeries) change(ctx context.Context, by func(timeseries.Options) (timeseries.Options, error)) (before, after timeseries.Options, err error) {
	s := t.series()
	have, err := ReadDefinition(ctx, s.ports.Options)
	if err != nil {
		return before, after, err
	}
	s.options = have.Options // its field names never change
	if after, err := by(have.Options); err == nil {
		if err := s.mayShorten(ctx, have.Options, after); err != nil {
			return have.Options, have.Options, err
		}
	}
	upkeep := &lastingUpkeep{series: s, create: func(seconds int32) error { return s.createExpiry(ctx, seconds) }}
	c := OptionsChange{Options: s.ports.Options, Upkeep: upkeep, Others: s.adjustUserExpiries, WriteTimeout: t.db.WriteTimeout(), Sleep: sleep}
	before, after, err = c.Run(ctx, by)
	built, failed := upkeep.wait(ctx)
	if err == nil {
		err = failed
	}
	if err != nil || !built {
		return before, after, err
	}
	// Another process may have changed the options again before MongoDB listed the index.
	if have, err = ReadDefinition(ctx, s.ports.Options); err != nil || have.Options == after {
		return before, after, err
	}
	c.Upkeep = s
	_, _, err = c.Run(ctx, func(o timeseries.Options) (timeseries.Options, error) { return o, nil })
	return before, after, err
}

// mayShorten tries the right that a shorter expiry needs after the definition is written. A user without it must not change the
// definition.
func (s *series) mayShorten(ctx context.Context, before, after timeseries.Options) error {
	if after.ExpireAfterSeconds == 0 || after.TTLSeconds() >= before.TTLSeconds() {
		return nil
	}
	if err := s.modify(ctx, s.buckets().Name(), expiryOfNoIndex(int64(after.TTLSeconds()))); mongodb.LacksRight(err) {
		return mongodb.Failure("changing the expiry", err)
	}
	return nil
}

// sleep waits, unless the context ends.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// OptionsChange changes the options of a time series while consumers write and the server expires and shows buckets. Only this
// order deletes nothing early and hides nothing:
//  1. It takes the lock. Only one change runs at a time, because a late command of another change would undo this one's. Then it
//     makes up for an earlier change that reached only some shards of a cluster.
//  2. It makes expiry and view right for both the old and the new options (widen). Here both only become wider.
//  3. It writes the definition if that still has the version that was read. It writes even an equal definition, because the read
//     may have returned what a majority had a while ago. From now on consumers may follow the new definition.
//  4. It makes both right once more. A consumer that was starting by the old options may have changed them after step 2. One that
//     changes them after step 3 finds the definition changed, and makes them right itself.
//  5. It makes the expiry as short as the new options say (tighten). Nothing that was deleted between steps 2 and 3 was due by
//     the old options only.
//
// A change that is cut off at any step leaves an expiry and a view that are right for the definition. Repeating the change
// completes it. A consumer follows a definition only when expiry and view cover it (Covers).
type OptionsChange struct {
	Options mongodb.Collection // of the time series
	Upkeep  Upkeep
	// Others adapts what else depends on the span to the new options, that is, the expiring indexes of users. Nil means that
	// there is nothing.
	Others func(ctx context.Context, after timeseries.Options) error
	// WriteTimeout bounds a write from sending to the answer. A write may be executed for as long again after that.
	WriteTimeout time.Duration
	// Sleep waits for so long, or until the context ends.
	Sleep func(ctx context.Context, d time.Duration) error
}

// Run changes the options by a function of them. It returns the definitions before and after, which are equal when nothing
// changed. It returns a *timeseries.Error of the function as it is.
func (c OptionsChange) Run(ctx context.Context, change func(timeseries.Options) (timeseries.Options, error)) (before, after timeseries.Options, err error) {
	err = c.locked(ctx, func(held context.Context) (err error) {
		before, after, err = c.run(held, change)
		return err
	})
	return before, after, err
}

// noteSegments notes in the definition, for good, that the time series may hold segments. It holds the lock, under which changes
// of options write the view in the form of the definition. So no earlier change can undo the new form.
func (c OptionsChange) noteSegments(ctx context.Context) error {
	return c.locked(ctx, func(held context.Context) error {
		d, err := ReadDefinition(held, c.Options)
		if err != nil || d.Segments {
			return err
		}
		version := d.Version
		d.Segments, d.Version = true, version+1
		return c.write(held, d, version)
	})
}

// locked calls do while it holds the lock, and no longer.
func (c OptionsChange) locked(ctx context.Context, do func(held context.Context) error) error {
	lock, held, err := c.lock(ctx)
	if err != nil {
		return err
	}
	defer lock.cancel()
	err = do(held)
	if _, ok := errors.AsType[*mongodb.OutageError](err); held.Err() == nil && !ok {
		lock.release(ctx)
	} // otherwise a sent command may still be executed, and the next change waits for that long
	return err
}

func (c OptionsChange) run(ctx context.Context, change func(timeseries.Options) (timeseries.Options, error)) (before, after timeseries.Options, err error) {
	have, err := ReadDefinition(ctx, c.Options)
	if err != nil {
		return before, after, err
	}
	before = have.Options
	if after, err = change(before); err != nil {
		return before, after, err
	}
	if err := c.Upkeep.EvenExpiry(ctx); err != nil {
		return before, after, err
	}
	if err := widen(ctx, c.Upkeep, longest(before, after)); err != nil {
		return before, after, err
	}
	if c.Others != nil {
		if err := c.Others(ctx, after); err != nil {
			return before, after, err
		}
	}
	next := have
	if next.Options = after; after != before {
		next.Version++
	}
	if err := c.write(ctx, next, have.Version); err != nil {
		return before, after, err
	}
	if err := widen(ctx, c.Upkeep, after); err != nil {
		return before, after, err
	}
	return before, after, tighten(ctx, c.Upkeep, after)
}

// longest returns the later options with the longer of both expiries.
func longest(before, after timeseries.Options) timeseries.Options {
	if before.ExpireAfterSeconds == 0 || after.ExpireAfterSeconds == 0 {
		after.ExpireAfterSeconds = 0
	} else {
		after.ExpireAfterSeconds = max(before.ExpireAfterSeconds, after.ExpireAfterSeconds)
	}
	return after
}

// write writes the next definition if the present one still has that version.
func (c OptionsChange) write(ctx context.Context, next timeseries.Definition, version int32) error {
	fields, unset := mongodb.Document(next), bson.D{}
	for _, name := range []string{"granularity", "bucketRoundingSeconds", "expireAfterSeconds"} {
		if fields.Lookup(name).Type == 0 {
			unset = append(unset, bson.E{Key: name, Value: ""})
		}
	}
	update := bson.D{{Key: "$set", Value: fieldsOf(fields, "_id")}}
	if len(unset) > 0 {
		update = append(update, bson.E{Key: "$unset", Value: unset})
	}
	written, err := mongodb.Changed(c.Options.Update(ctx, []mongodb.Update{{
		Filter: mongodb.Document(bson.D{{Key: "_id", Value: timeseries.DefinitionID}, {Key: "version", Value: version}}), Update: mongodb.Document(update),
	}}))
	if err == nil && !written {
		return ErrChangedMeanwhile
	}
	return mongodb.Failure("writing the collection's options", err)
}

// lockID is the _id of the lock of a time series' options, in the options collection. Its fields are token, the holder's or ""
// when nobody holds it, and waitMs, how long others wait for it at most.
const lockID = "change"

// A change takes at most holdTimes of the write timeout, and what it sent is executed within the write grace period of its
// writes. Others wait that long for a change that does not end. Then they take its lock, because its process is dead.
const holdTimes = 3

// lockTries bounds how many other holders lock waits for.
const lockTries = 5

// lock is the right to change a time series' options.
type lock struct {
	c      OptionsChange
	token  string
	cancel context.CancelFunc // ends the context that ends with the lock
}

// lock takes the lock. The returned context ends with the lock.
func (c OptionsChange) lock(ctx context.Context) (lock, context.Context, error) {
	l, from := lock{c: c, token: rand.Text()}, ""
	for range lockTries {
		held, cancel := context.WithTimeout(ctx, holdTimes*c.WriteTimeout)
		won, err := l.take(held, from)
		if won {
			l.cancel = cancel
			return l, held, nil
		}
		cancel()
		if err == nil {
			from, err = l.waited(ctx)
		}
		if err != nil {
			return l, ctx, mongodb.Failure("locking the collection's options", mongodb.Within(holdTimes*c.WriteTimeout, err))
		}
	}
	return l, ctx, ErrChangedMeanwhile
}

// waited waits until nobody holds the lock, or until its holder counts as dead. It returns the dead holder's token.
func (l lock) waited(ctx context.Context) (string, error) {
	seen, most, err := l.holder(ctx)
	pause := l.c.WriteTimeout / 10
	for waited := time.Duration(0); err == nil && seen != "" && waited < most; waited += pause {
		if err := l.c.Sleep(ctx, pause); err != nil {
			return "", err
		}
		now, long, err := l.holder(ctx)
		if err != nil {
			return "", err
		}
		if now != seen {
			seen, most, waited = now, long, 0
		}
	}
	return seen, err
}

// take takes the lock from the holder with a token. An empty token means that nobody holds the lock.
func (l lock) take(ctx context.Context, from string) (bool, error) {
	won, err := mongodb.Changed(l.c.Options.Update(ctx, []mongodb.Update{{
		Filter: mongodb.Document(bson.D{{Key: "_id", Value: lockID}, {Key: "token", Value: from}}),
		Update: mongodb.Set(l.held()),
	}}))
	if won || err != nil || from != "" {
		return won, err
	}
	return mongodb.Changed(l.c.Options.Insert(ctx, []bson.Raw{mongodb.Document(append(bson.D{{Key: "_id", Value: lockID}}, l.held()...))}))
}

// held returns the fields of the held lock. Those who wait may have another write timeout, so the lock says how long to wait.
func (l lock) held() bson.D {
	return bson.D{{Key: "token", Value: l.token}, {Key: "waitMs", Value: (holdTimes*l.c.WriteTimeout + claim.WriteGrace(l.c.WriteTimeout)).Milliseconds()}}
}

// holder returns the holder's token and how long to wait for it at most. An empty token means that nobody holds the lock.
func (l lock) holder(ctx context.Context) (string, time.Duration, error) {
	d, err := mongodb.First(ctx, l.c.Options, mongodb.Query{Filter: mongodb.WithID(lockID)})
	token, _ := d.Lookup("token").StringValueOK()
	wait, _ := d.Lookup("waitMs").AsInt64OK()
	return token, time.Duration(wait) * time.Millisecond, err
}

// release gives the lock back when nothing of the change is under way any more. If that fails, the next change waits for the
// lock.
func (l lock) release(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.c.WriteTimeout)
	defer cancel()
	_, _ = l.c.Options.Update(ctx, []mongodb.Update{{
		Filter: mongodb.Document(bson.D{{Key: "_id", Value: lockID}, {Key: "token", Value: l.token}}),
		Update: mongodb.Set(bson.D{{Key: "token", Value: ""}}),
	}})
}
