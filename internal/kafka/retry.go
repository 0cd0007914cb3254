package kafka

import (
	"context"
	"math/rand/v2"
	"time"
)

const (
	retryMin = 100 * time.Millisecond
	retryMax = 500 * time.Millisecond
	// patience is how often Patiently asks: some six seconds.
	patience = 20
)

// Pause waits between two attempts, with jitter, and reports whether ctx is still alive.
func Pause(ctx context.Context) bool { return Sleep(ctx, retryMin+rand.N(retryMax-retryMin)) }

// Sleep waits, not at all for a time that is not positive, and reports whether ctx is still alive.
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

// Patiently asks again while an answer may still come: what brokers and coordinators are slow about at times. The error is
// that of the last attempt, or why ctx is done.
func Patiently(ctx context.Context, question func() error) error {
	return patiently(ctx, patience, question)
}

// Answer is that to a question which is asked Patiently.
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

// passes tells of an error whether asking again may help.
func passes(err error) bool {
	class := Classify(err)
	return class == Retry || class == KeepCommit || class == StopIfPersists
}
