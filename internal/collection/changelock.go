package collection

import (
	"context"
	"crypto/rand"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/claim"
	"waterwheel/internal/mongodb"
)

// lockID is the _id of the lock of a time series' options, in the options collection. Its fields are token, the holder's or ""
// when nobody holds it, and waitMs, how long others wait for it at most.
const lockID = "change"

// A change takes at most holdTimes of the write timeout, and what it sent is executed within the grace of its writes. Others wait
// that long for a change that does not end. Then they take its lock, because its process is dead.
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
	return bson.D{{Key: "token", Value: l.token}, {Key: "waitMs", Value: (holdTimes*l.c.WriteTimeout + claim.Grace(l.c.WriteTimeout)).Milliseconds()}}
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
