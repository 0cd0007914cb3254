package collection

import (
	"context"
	"crypto/rand"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/mongodb"
)

// lockID is the _id of the lock of a time series' options, beside them: {token: of who holds it, "" when nobody does; waitMs: how
// long to wait for it at most}.
const lockID = "change"

// A change takes holdTimes of the write timeout at most, and what it sent is executed within lateTimes more. So long is waited
// for one that does not end, before its lock is taken: its process is dead.
const (
	holdTimes = 3
	lateTimes = 2
)

// lockTries bounds how many others are waited for.
const lockTries = 5

// lock is the right to change a time series' options.
type lock struct {
	c      OptionsChange
	token  string
	cancel context.CancelFunc // of the context that ends with it
}

// lock takes the lock. The context that it returns ends when the lock does.
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

// waited waits until nobody holds the lock, or one that is dead, whose token it returns.
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

// take takes the lock from who holds it. An empty text means that nobody holds it.
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

// held are the fields of the lock while it is held. Whoever waits may have another write timeout.
func (l lock) held() bson.D {
	return bson.D{{Key: "token", Value: l.token}, {Key: "waitMs", Value: ((holdTimes + lateTimes) * l.c.WriteTimeout).Milliseconds()}}
}

// holder is who holds the lock, and how long to wait for it at most. An empty text means that nobody does.
func (l lock) holder(ctx context.Context) (string, time.Duration, error) {
	d, err := mongodb.First(ctx, l.c.Options, mongodb.Query{Filter: mongodb.WithID(lockID)})
	token, _ := d.Lookup("token").StringValueOK()
	wait, _ := d.Lookup("waitMs").AsInt64OK()
	return token, time.Duration(wait) * time.Millisecond, err
}

// release gives the lock back, when nothing of the change is on its way any more. One that stays is waited for by the next.
func (l lock) release(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.c.WriteTimeout)
	defer cancel()
	_, _ = l.c.Options.Update(ctx, []mongodb.Update{{
		Filter: mongodb.Document(bson.D{{Key: "_id", Value: lockID}, {Key: "token", Value: l.token}}),
		Update: mongodb.Set(bson.D{{Key: "token", Value: ""}}),
	}})
}
