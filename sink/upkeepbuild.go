package sink

import (
	"context"
	"fmt"
	"time"
)

// listPause is how long to wait before MongoDB is asked again whether it lists an index.
const listPause = 100 * time.Millisecond

// lastingUpkeep is the Upkeep of one change of options. MongoDB builds a first index on many buckets for longer than a change may
// hold the lock, and a deadline would have it thrown away each time. So the build is only begun under the lock: as soon as the
// index is listed, whoever changes the options next finds it. The rest is waited for afterwards, by wait.
type lastingUpkeep struct {
	*series
	create func(seconds int32) error // without the deadline of the lock
	built  chan error                // Nil means that nothing is being built.
}

// SetExpiry implements Upkeep.
func (u *lastingUpkeep) SetExpiry(ctx context.Context, seconds int32) error {
	_, _, found, err := u.expiryNow(ctx)
	if err != nil {
		return err
	}
	if found || seconds == 0 {
		return u.series.SetExpiry(ctx, seconds)
	}
	u.built = make(chan error, 1)
	go func() { u.built <- u.create(seconds) }()
	for {
		select {
		case err := <-u.built:
			u.built = nil
			return err
		case <-ctx.Done():
			return nil // wait tells
		case <-time.After(listPause):
		}
		if now, err := u.Expiry(ctx); err == nil && now != 0 {
			return nil
		}
	}
}

// wait waits until nothing is being built. It reports whether something was.
func (u *lastingUpkeep) wait(ctx context.Context) (bool, error) {
	if u.built == nil {
		return false, nil
	}
	err := <-u.built
	u.built = nil
	if ctx.Err() != nil {
		err = fmt.Errorf("%w: MongoDB may go on building the index that deletes measurements; the same command tells, or begins again", context.Cause(ctx))
	}
	return true, err
}
