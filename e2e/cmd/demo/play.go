package main

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"waterwheel/e2e/harness"
)

// These are the times of the demo's scenes, counted from the first measurement.
const (
	pace      = 250 * time.Millisecond // time between two measurements of the machine
	killAfter = 8 * time.Second
	stopAfter = 20 * time.Second
)

// play runs the scenes, which are work, a crash, the take-over, an orderly end, and a second reading of all records.
func (s *stage) play(ctx context.Context) error {
	if err := s.startConsumer(ctx); err != nil {
		return err
	}
	s.out.step(green, "✓", "consumer running as process %d", s.consumer.PID())

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	produced := make(chan error, 1)
	go func() { produced <- s.produce(ctx, time.Now().Add(stopAfter)) }()
	s.out.step(blue, "▶", "measuring this machine 4 times a second, and %d simulated sensors; a tank sends %d hours at once", sensorCount, tankHours)

	begin := time.Now()
	if err := s.watchUntil(ctx, begin.Add(killAfter), produced); err != nil {
		return err
	}
	if err := s.crash(ctx); err != nil {
		return err
	}
	if err := s.watchUntil(ctx, begin.Add(stopAfter), produced); err != nil {
		return err
	}
	if err := <-produced; err != nil {
		return err
	}
	s.out.step(blue, "■", "no more measurements")
	m, err := s.finish(ctx)
	if err != nil {
		return err
	}
	s.recognised = int(m.Sum("waterwheel_measurements_skipped_total", "reason", "replayed"))
	s.out.step(green, "✓", "everything committed; the consumer ended on SIGTERM")
	return s.readAgain(ctx)
}

// watchUntil shows the progress until end, or until producing has failed.
func (s *stage) watchUntil(ctx context.Context, end time.Time, produced chan error) error {
	for time.Now().Before(end) {
		if m, err := s.consumer.Metrics(ctx); err == nil {
			s.out.progress("stored %s   lag %.0f   buckets opened %.0f   letters %.0f", grouped(int(m.Sum("waterwheel_measurements_stored_total"))),
				m.Sum("waterwheel_lag_records"), m.Sum("waterwheel_buckets_opened_total"), m.Sum("waterwheel_dead_letters_total"))
		}
		select {
		case err := <-produced:
			if err != nil {
				return err
			}
			produced <- nil // producing ended in time, and the caller receives this value
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
	return nil
}

// crash kills the consumer right after it has stored another flush, so that the offsets are not yet committed. Then it starts
// another consumer.
func (s *stage) crash(ctx context.Context) error {
	moment := "SIGKILL"
	if s.awaitFlush(ctx) {
		moment = "SIGKILL right after a flush, before its offsets were committed"
	}
	s.consumer.Kill()
	s.killed = time.Now()
	s.out.step(red, "✗", "%s", moment)
	if err := s.startConsumer(ctx); err != nil {
		return err
	}
	s.out.step(green, "✓", "consumer started again as process %d", s.consumer.PID())
	return nil
}

// awaitFlush waits for at most five seconds until the consumer has stored more. It reports whether it has.
func (s *stage) awaitFlush(ctx context.Context) bool {
	before := -1.0
	for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		m, err := s.consumer.Metrics(ctx)
		if err != nil {
			continue
		}
		stored := m.Sum("waterwheel_measurements_stored_total")
		if before >= 0 && stored > before {
			return true
		}
		before = stored
	}
	return false
}

// finish waits until all offsets are committed, ends the consumer with SIGTERM, and returns its last metrics.
func (s *stage) finish(ctx context.Context) (harness.Metrics, error) {
	ctx, cancel := context.WithTimeout(ctx, 40*time.Second)
	defer cancel()
	topic, _, err := s.reader.Topic(ctx, topicName)
	if err != nil {
		return nil, err
	}
	if err := s.reader.AwaitCommitted(ctx, groupName, topic); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, s.consumer.Log())
	}
	if err := s.awaitRollups(ctx); err != nil {
		return nil, err
	}
	m, err := s.consumer.Metrics(ctx)
	if err != nil {
		return nil, err
	}
	code, err := s.consumer.Terminate(ctx)
	if err != nil {
		return nil, err
	}
	if code != 0 {
		return nil, fmt.Errorf("the consumer ended with code %d after SIGTERM:\n%s", code, s.consumer.Log())
	}
	return m, nil
}

// awaitRollups waits until a pass over the rollups of every partition is done that began after the call.
func (s *stage) awaitRollups(ctx context.Context) error {
	for committed := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		m, err := s.consumer.Metrics(ctx)
		if err == nil && m.Sum("waterwheel_rollup_behind_seconds") < time.Since(committed).Seconds() {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("waiting for the rollups: %w\n%s", ctx.Err(), s.consumer.Log())
		}
	}
}

// readAgain resets the group to the earliest offset, as an operator would, and lets a consumer read all records again.
func (s *stage) readAgain(ctx context.Context) error {
	if err := s.resetOffsets(ctx); err != nil {
		return err
	}
	s.out.step(red, "↺", "the group is set back to the earliest offset: everything comes again")
	if err := s.startConsumer(ctx); err != nil {
		return err
	}
	s.out.step(green, "✓", "consumer started again as process %d", s.consumer.PID())
	m, err := s.finish(ctx)
	if err != nil {
		return err
	}
	s.readTwice = int(m.Sum("waterwheel_measurements_skipped_total", "reason", "replayed"))
	s.out.step(green, "✓", "everything read again: %s measurements recognised, %s stored",
		grouped(s.readTwice), grouped(int(m.Sum("waterwheel_measurements_stored_total"))))
	return nil
}

// resetOffsets commits the start of the log for all partitions. The group has no members at this time.
func (s *stage) resetOffsets(ctx context.Context) error {
	var starts kadm.Offsets
	for p := range int32(partitions) {
		starts.AddOffset(topicName, p, 0, -1)
	}
	if err := s.reader.Admin.CommitAllOffsets(ctx, groupName, starts); err != nil {
		return fmt.Errorf("resetting the group's offsets: %w", err)
	}
	return nil
}

// produce sends measurements until end.
func (s *stage) produce(ctx context.Context, end time.Time) error {
	m, err := newMachine(ctx)
	if err != nil {
		return err
	}
	field := newSensors()
	producer := harness.NewProducer(s.kafka.Brokers(), topicName)
	defer producer.Close()
	history := tankHistory(time.Now())
	for _, e := range history {
		s.book.Add(e)
	}
	if err := producer.Send(ctx, history...); err != nil {
		return err
	}
	tick := time.NewTicker(pace)
	defer tick.Stop()
	for time.Now().Before(end) {
		made := append(m.measure(ctx), field.measure(time.Now())...)
		for _, e := range made {
			s.book.Add(e)
		}
		if err := producer.Send(ctx, made...); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
	return nil
}
