package kafka

import (
	"context"
	"math/rand/v2"
	"time"
)

const (
	retryMin = 100 * time.Millisecond
	retryMax = 500 * time.Millisecond
	// patience is the number of attempts of Patiently, which take some six seconds.
	patience = 20
)

// Pause waits between two attempts, with jitter. It reports whether ctx is still alive.
func Pause(ctx context.Context) bool { return Sleep(ctx, retryMin+rand.N(retryMax-retryMin)) }

// Sleep waits for d and reports whether ctx is still alive. It does not wait if d is not positive.
func Sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// Patiently repeats a question while a retry may help, because brokers and coordinators are slow at times. Its error is that of
// the last attempt, or the cause of ctx.
func Patiently(ctx context.Context, question func() error) error {
	return patiently(ctx, patience, question)
}

// Answer is Patiently for a question with an answer.
func Answer[A any](ctx context.Context, question func() (A, error)) (answer A, err error) {
	err = Patiently(ctx, func() error {
		answer, err = question()
		return err
	})
	return answer, err
}

func patiently(ctx context.Context, tries int, question func() error) error {
	for try := 1; ; try++ {
		err := question()
		if try == tries || !passes(err) {
			return err
		}
		if !Pause(ctx) {
			return context.Cause(ctx)
		}
	}
}

// passes reports whether a retry may help.
func passes(err error) bool {
	class := Classify(err)
	return class == Retry || class == KeepCommit || class == StopIfPersists
}
