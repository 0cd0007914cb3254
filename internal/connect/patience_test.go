package connect

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"waterwheel/pipeline"
)

var errAway = errors.New("connection refused")

// patient is the Patience of the command run, with its log and the errors that it shows.
type patient struct {
	*Patience
	log  strings.Builder
	told []error
}

func newPatient(limit time.Duration) *patient {
	p := &patient{}
	with := Patience{
		Log: slog.New(slog.NewTextHandler(&p.log, nil)), Opening: true, Bound: "START_TIMEOUT",
		Show: func(_ pipeline.Dependency, _ string, _ time.Time, why error) { p.told = append(p.told, why) },
	}
	p.Patience = with.Started(limit)
	return p
}

func (p *patient) lines(with string) int { return strings.Count(p.log.String(), with) }

var someKafka = wait{of: pipeline.Kafka, at: "kafka:9092", wayOut: "start Kafka"}

// TestAWaitIsSaidAndEnds checks the log of a wait. It has a line at its beginning, then an error each minute, and a line at its
// end.
func TestAWaitIsSaidAndEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, begin := newPatient(0), time.Now()
		err := p.opens(t.Context(), someKafka, func(context.Context) error {
			if time.Since(begin) < 150*time.Second {
				return &notYetError{errAway}
			}
			return nil
		})
		if err != nil || p.lines("level=WARN") != 1 || p.lines("level=ERROR") != 2 || p.lines(`msg="Kafka answers"`) != 1 || p.lines("at=kafka:9092") != 4 || p.lines("after=2m30") != 1 {
			t.Errorf("%v, and the lines are\n%s", err, p.log.String())
		}
		if n := len(p.told); n < 200 || !errors.Is(p.told[0], errAway) || p.told[n-1] != nil {
			t.Errorf("it is shown %d times, the last time %v", n, p.told[max(0, n-1)])
		}
	})
}

// TestATryWithoutAnAnswerIsSaid checks that a slow try is logged while it runs, so that the log shows the reason of the wait.
func TestATryWithoutAnAnswerIsSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, w := newPatient(0), someKafka
		w.slow = "an index takes its time"
		err := p.wait(t.Context(), w, func(context.Context) error {
			time.Sleep(95 * time.Second)
			return nil
		})
		if err != nil || p.lines("level=WARN") != 1 || p.lines("level=ERROR") != 1 || p.lines(`err="no answer for 10s"`) != 1 ||
			p.lines(`err="no answer for 1m10s"`) != 1 || p.lines(`way_out="an index takes its time"`) != 2 || p.lines(`msg="Kafka answers"`) != 1 {
			t.Errorf("%v, and the lines are\n%s", err, p.log.String())
		}
		if n := len(p.told); n != 10 || p.told[0] == nil || p.told[n-1] != nil {
			t.Errorf("it is shown %d times: %v", n, p.told)
		}
	})
}

// TestATryThatIsCutOffIsNotTheReason checks that the error comes from the try before the last one, which the time limit cut off.
func TestATryThatIsCutOffIsNotTheReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, tries := newPatient(10*time.Second), 0
		err := p.wait(t.Context(), someKafka, func(ctx context.Context) error {
			if tries++; tries == 1 {
				return &notYetError{errAway}
			}
			until, _ := ctx.Deadline()
			time.Sleep(time.Until(until) - time.Millisecond)
			return &notYetError{errors.New("i/o timeout")}
		})
		if !errors.Is(err, errAway) || tries != 2 {
			t.Errorf("after %d tries: %v", tries, err)
		}
	})
}

// TestNoWaitWhereAllIsThere checks that nothing is logged or shown if the first try succeeds.
func TestNoWaitWhereAllIsThere(t *testing.T) {
	p := newPatient(time.Second)
	if err := p.opens(t.Context(), someKafka, func(context.Context) error { return nil }); err != nil || p.log.Len() > 0 || len(p.told) > 0 {
		t.Errorf("%v, and the lines are\n%s", err, p.log.String())
	}
}

// TestAMistakeEndsAWait checks that a wait ends at once when a try returns an error that does not pass by itself.
func TestAMistakeEndsAWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, wrong, tries := newPatient(0), errors.New("wrong password"), 0
		err := p.opens(t.Context(), someKafka, func(context.Context) error {
			if tries++; tries == 1 {
				return &notYetError{errAway}
			}
			return wrong
		})
		if !errors.Is(err, wrong) || tries != 2 || p.told[len(p.told)-1] != nil || p.lines("Kafka answers") != 0 {
			t.Errorf("%v after %d tries; shown is %v, and the lines are\n%s", err, tries, p.told, p.log.String())
		}
	})
}

// TestPatienceIsBounded checks that the time limit covers all waits together. The error is the reason of the wait, and not the
// time limit that cut off the last try.
func TestPatienceIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, begin, tries := newPatient(4*time.Second), time.Now(), 0
		time.Sleep(time.Second)
		err := p.opens(t.Context(), someKafka, func(ctx context.Context) error {
			if tries++; tries == 1 {
				return &notYetError{errAway}
			}
			<-ctx.Done()
			return &notYetError{ctx.Err()}
		})
		if !errors.Is(err, errAway) || errors.Is(err, context.DeadlineExceeded) || time.Since(begin) != 4*time.Second {
			t.Errorf("%v after %v", err, time.Since(begin))
		}
		for _, part := range []string{"waited 3s for Kafka at kafka:9092", "START_TIMEOUT", "connection refused", "start Kafka"} {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("%q is not in: %v", part, err)
			}
		}
	})
}

// TestAStopEndsAWait checks that a wait ends at once when its context ends, also in the pause between two tries.
func TestAStopEndsAWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, begin := newPatient(0), time.Now()
		ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
		defer stop()
		err := p.opens(ctx, someKafka, func(context.Context) error { return &notYetError{errAway} })
		if err == nil || time.Since(begin) != 10*time.Second {
			t.Errorf("%v after %v", err, time.Since(begin))
		}
	})
}

// TestOnlyRunWaitsForWhatOpens checks that other commands report a missing server at once. They do wait for an election to end.
func TestOnlyRunWaitsForWhatOpens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, begin := newPatient(30*time.Second), time.Now()
		p.Opening = false
		if err := p.opens(t.Context(), someKafka, func(context.Context) error { return &notYetError{errAway} }); !errors.Is(err, errAway) || time.Since(begin) > 0 {
			t.Errorf("%v after %v", err, time.Since(begin))
		}
		err := p.wait(t.Context(), someKafka, func(context.Context) error { return &notYetError{errAway} })
		if !errors.Is(err, errAway) || time.Since(begin) != 30*time.Second {
			t.Errorf("%v after %v", err, time.Since(begin))
		}
	})
}
