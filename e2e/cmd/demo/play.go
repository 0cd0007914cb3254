package main

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"golang.org/x/sync/errgroup"

	"waterwheel/e2e/check"
	"waterwheel/e2e/events"
	"waterwheel/e2e/harness"
	"waterwheel/internal/cli/text"
)

// These are the demo's names. maxEventBytes is small, so that an oversized event is cheap to make.
const (
	topicName     = "measurements"
	databaseName  = "demo"
	groupName     = "waterwheel-demo"
	partitions    = 3
	maxEventBytes = 32 << 10
)

// These are the times of the demo's scenes, counted from the first measurement.
const (
	pace      = 250 * time.Millisecond // time between two measurements of the machine
	killAfter = 8 * time.Second
	stopAfter = 20 * time.Second
)

// stage holds everything that runs during the demo.
type stage struct {
	out      *screen
	servers  *harness.Servers
	reader   *check.Kafka
	binary   string // path of the program
	settings harness.Settings
	consumer *harness.Consumer // the consumer that runs, or the last one
	book     *events.Book

	begin, killed time.Time // when the first measurement was made, and when the first consumer was killed
	// These measurements were recognised as already stored, after the crash and after the reset.
	recognised, readTwice int
}

// settings returns the consumer's settings.
func settings(servers *harness.Servers) harness.Settings {
	return servers.Short(topicName, databaseName).With(
		"KAFKA_GROUP_ID", groupName,
		"COMMIT_INTERVAL", "500ms", // leaves time for a crash between a write and its commit
		"FLUSH_INTERVAL", "2s",
		"EVENT_MAX_BYTES", fmt.Sprint(maxEventBytes),
		// These make totals by minute, hour and day at once.
		"ROLLUP_LEVELS", "1m,1h,1d",
		"ROLLUP_INTERVAL", "1s",
		"ROLLUP_SHARE", "1",
	)
}

// close ends the consumer and the connections of the demo.
func (s *stage) close() {
	if s.consumer != nil {
		s.consumer.Kill()
	}
	s.reader.Close()
}

// startConsumer starts the real program and waits until it is ready.
func (s *stage) startConsumer(ctx context.Context) (err error) {
	if s.consumer, err = harness.Start(s.binary, s.settings); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	if err := s.consumer.AwaitReady(ctx); err != nil {
		return err
	}
	s.out.step(green, "✓", "consumer running as process %d", s.consumer.PID())
	return nil
}

// play runs the scenes, which are work, a crash, the takeover, an orderly end, and a second reading of all records.
func (s *stage) play(ctx context.Context) error {
	if err := s.servers.CreateTopic(ctx, topicName, partitions); err != nil {
		return err
	}
	if err := s.startConsumer(ctx); err != nil {
		return err
	}
	s.begin = time.Now()
	scene, working := errgroup.WithContext(ctx)
	scene.Go(func() error { return s.produce(working, s.begin.Add(stopAfter)) })
	scene.Go(func() error { return s.crash(working) })
	s.out.step(blue, "▶", "measuring this machine 4 times a second, and %d simulated sensors;", sensorCount)
	s.out.line("           a tank sends the readings of %d hours at once", tankHours)
	if err := scene.Wait(); err != nil {
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

// crash watches the consumer, and kills it right after it has stored another flush, so that the offsets are not yet committed.
// Then it watches another consumer.
func (s *stage) crash(ctx context.Context) error {
	if err := s.watchUntil(ctx, s.begin.Add(killAfter)); err != nil {
		return err
	}
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
	return s.watchUntil(ctx, s.begin.Add(stopAfter))
}

// watchUntil shows the progress until end, or until the context ends because producing has failed.
func (s *stage) watchUntil(ctx context.Context, end time.Time) error {
	for time.Now().Before(end) {
		if m, err := s.consumer.Metrics(ctx); err == nil {
			s.out.progress("stored %.0f   lag %.0f   buckets opened %.0f   dead letters %.0f", m.Sum("waterwheel_measurements_stored_total"),
				m.Sum("waterwheel_lag_records"), m.Sum("waterwheel_buckets_opened_total"), m.Sum("waterwheel_dead_letters_total"))
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
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

// finish waits until all offsets are committed and all rollups are computed. It then ends the consumer with SIGTERM, and returns
// its last metrics.
func (s *stage) finish(ctx context.Context) (harness.Metrics, error) {
	ctx, cancel := context.WithTimeout(ctx, 90*time.Second) // seconds suffice, except on a busy machine
	defer cancel()
	topic, _, err := s.reader.Topic(ctx, topicName)
	if err != nil {
		return nil, err
	}
	if err := s.reader.AwaitCommitted(ctx, groupName, topic); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, s.consumer.Log())
	}
	for behind := "not asked yet"; behind != ""; time.Sleep(50 * time.Millisecond) {
		if behind, err = check.BehindRollups(ctx, s.source()); err != nil {
			return nil, fmt.Errorf("waiting for the rollups: %w\n%s", err, s.consumer.Log())
		}
	}
	m, err := s.consumer.Metrics(ctx)
	if err != nil {
		return nil, err
	}
	code, err := s.consumer.Terminate(ctx)
	if err == nil && code != 0 {
		err = fmt.Errorf("the consumer ended with code %d after SIGTERM:\n%s", code, s.consumer.Log())
	}
	return m, err
}

// source names what check reads.
func (s *stage) source() check.Source {
	return check.Source{
		Kafka: s.reader, MongoURI: s.servers.MongoURI, Database: databaseName, Topic: topicName, Group: groupName, Fate: s.book.Fate,
	}
}

// readAgain resets the group to the earliest offset, as an operator would, and lets a consumer read all records again.
func (s *stage) readAgain(ctx context.Context) error {
	var starts kadm.Offsets
	for p := range int32(partitions) {
		starts.AddOffset(topicName, p, 0, -1)
	}
	if err := s.reader.Admin.CommitAllOffsets(ctx, groupName, starts); err != nil {
		return fmt.Errorf("resetting the group's offsets: %w", err)
	}
	s.out.step(red, "↺", "group reset to the earliest offset: every record is read again")
	if err := s.startConsumer(ctx); err != nil {
		return err
	}
	m, err := s.finish(ctx)
	if err != nil {
		return err
	}
	s.readTwice = int(m.Sum("waterwheel_measurements_skipped_total", "reason", "replayed"))
	s.out.step(green, "✓", "everything read again: %s measurements recognised, %s stored",
		text.Grouped(int64(s.readTwice)), text.Grouped(int64(m.Sum("waterwheel_measurements_stored_total"))))
	return nil
}

// produce sends measurements until end.
func (s *stage) produce(ctx context.Context, end time.Time) error {
	producer := harness.NewProducer(s.servers.Brokers, topicName)
	defer producer.Close()
	field := newSensors()
	tick := time.NewTicker(pace)
	defer tick.Stop()
	for made := tankHistory(time.Now()); ; made = append(measureMachine(ctx), field.measure(time.Now())...) {
		for _, e := range made {
			s.book.Add(e)
		}
		if err := producer.Send(ctx, made...); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case now := <-tick.C:
			if now.After(end) {
				return nil
			}
		}
	}
}
