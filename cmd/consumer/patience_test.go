package main

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

var (
	errAway  = errors.New("connection refused")
	errWrong = errors.New("wrong password")
)

func away(err error) bool { return errors.Is(err, errAway) }

// waited is what came of waiting.
type waited struct {
	err   error
	took  time.Duration
	log   string
	shown []error
}

// waitFor waits, as p says, for a server that answers as answer does at a time.
func waitFor(ctx context.Context, p patience, answer func(ctx context.Context, at time.Duration) error) waited {
	var out bytes.Buffer
	var w waited
	begin := time.Now()
	p.since, p.log = begin, newLogger(&out, "info", "text", false)
	p.show = func(_ string, _ time.Time, err error) { w.shown = append(w.shown, err) }
	w.err = p.until(ctx, "Kafka", away, func(ctx context.Context) error { return answer(ctx, time.Since(begin)) })
	w.took, w.log = time.Since(begin), out.String()
	return w
}

func awayUntil(end time.Duration, then error) func(context.Context, time.Duration) error {
	return func(_ context.Context, at time.Duration) error {
		if at < end {
			return errAway
		}
		return then
	}
}

func TestServersAreWaitedFor(t *testing.T) {
	for name, c := range map[string]struct {
		lasts, limit time.Duration
		then         error
		warned, told int // lines: of waiting, and that it is over
		want         string
		took         time.Duration // at most
	}{
		"it answers":             {0, 0, nil, 0, 0, "", 0},
		"it comes soon":          {12 * time.Second, 0, nil, 1, 1, "", 14 * time.Second},
		"it comes late":          {150 * time.Second, 0, nil, 3, 1, "", 152 * time.Second},
		"it takes no password":   {12 * time.Second, 0, errWrong, 1, 0, "wrong password", 14 * time.Second},
		"a limit that is enough": {12 * time.Second, time.Minute, nil, 1, 1, "", 14 * time.Second},
		"it does not come":       {time.Hour, 20 * time.Second, nil, 1, 0, "waited for Kafka for 20s (START_TIMEOUT is 20s): connection refused", 20 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				got := waitFor(t.Context(), patience{limit: c.limit, name: "START_TIMEOUT"}, awayUntil(c.lasts, c.then))
				if text := ""; got.err != nil && got.err.Error() != c.want || got.err == nil && c.want != text {
					t.Errorf("ended with %v, want %q", got.err, c.want)
				}
				if got.took > c.took {
					t.Errorf("after %v", got.took)
				}
				if warned, told := strings.Count(got.log, `"waiting for Kafka"`), strings.Count(got.log, `"Kafka answers"`); warned != c.warned || told != c.told {
					t.Errorf("%d and %d lines of the log, want %d and %d:\n%s", warned, told, c.warned, c.told, got.log)
				}
				if c.warned > 0 && got.shown[0].Error() != errAway.Error() {
					t.Errorf("shown is %v", got.shown)
				}
				if c.told > 0 && got.shown[len(got.shown)-1] != nil {
					t.Errorf("at the end %v is shown", got.shown)
				}
			})
		})
	}
}

// TestStopEndsAWait: at once, whatever is being tried.
func TestStopEndsAWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithTimeout(t.Context(), 5*time.Second)
		defer stop()
		got := waitFor(ctx, patience{}, func(ctx context.Context, at time.Duration) error {
			if at < 3*time.Second {
				return errAway
			}
			<-ctx.Done()
			return ctx.Err()
		})
		if got.took != 5*time.Second || !errors.Is(got.err, context.DeadlineExceeded) {
			t.Errorf("after %v: %v", got.took, got.err)
		}
	})
}

// TestLimitCutsATryShort, and the reason is that of the try before.
func TestLimitCutsATryShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := waitFor(t.Context(), patience{limit: 5 * time.Second, name: "START_TIMEOUT"}, func(ctx context.Context, at time.Duration) error {
			if at < 3*time.Second {
				return errAway
			}
			<-ctx.Done()
			return ctx.Err()
		})
		if got.took != 5*time.Second || !errors.Is(got.err, errAway) {
			t.Errorf("after %v: %v", got.took, got.err)
		}
	})
}
