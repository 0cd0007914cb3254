package status

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"waterwheel/internal/kafka"
	"waterwheel/internal/record"
	"waterwheel/pipeline"
)

// When the log of a partition is looked at: some time after its worker learnt anything of it, because it waits, is paused
// or has stopped.
const (
	lookAfter   = 5 * time.Second
	lookTimeout = 2 * time.Second
	// lookAgain is between two tries to find out how old a record is.
	lookAgain = 30 * time.Second
)

// logLooker asks Kafka about a partition.
type logLooker interface {
	// HighWatermark is the log's end, whoever may read up to there.
	HighWatermark(ctx context.Context, of record.Partition) (end int64, err error)
	// Committed is the group's offset, -1: none.
	Committed(ctx context.Context, of record.Partition) (int64, error)
	// Timestamp is that of the first record from an offset on, 0 when there is none.
	Timestamp(ctx context.Context, of record.Partition, topicID [16]byte, offset int64) (int64, error)
	// OpenTransaction returns the transaction beyond which the partition cannot be read. Nil means that none is open.
	OpenTransaction(ctx context.Context, of record.Partition) (*record.Transaction, error)
}

// looks know of each partition what its worker cannot know while it does not fetch: where the log ends, and how old the
// first record is that was not read. They are safe for concurrent use.
type looks struct {
	clock func() pipeline.Instant
	log   *slog.Logger

	mu sync.Mutex
	by map[record.Partition]look
}

// look is what was seen of a partition.
type look struct {
	end       int64
	committed *int64           // of a partition that has stopped. Nil means that it is not known.
	at        pipeline.Instant // when they were asked, 0: never
	// unread is the first record that was not read, noticed says when it was seen to be there, and time is its timestamp in
	// milliseconds, 0: not known.
	unread  int64
	noticed time.Time
	time    int64
	tried   pipeline.Instant // when its timestamp was asked, 0: never
	// transaction is what the partition waits for since blocked, and asked says when that was found out. Zero means that it does not
	// wait, or was not asked.
	transaction    *record.Transaction
	blocked, asked pipeline.Instant
}

func newLooks(clock func() pipeline.Instant, log *slog.Logger) *looks {
	return &looks{clock: clock, log: log, by: map[record.Partition]look{}}
}

// refresh looks at the partitions of which the workers know nothing recent. It ends with the first question that is not
// answered: the others would not be either.
func (l *looks) refresh(ctx context.Context, kafka logLooker, statuses []*pipeline.Status) {
	seen := map[record.Partition]look{}
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.by = seen
	}()
	failed := false
	for _, s := range statuses {
		name := s.Partition
		last := l.at(name)
		if !failed && l.clock()-max(s.EndAt, last.at) >= lookAfter {
			failed = last.askOffsets(ctx, kafka, s, l.clock) != nil
		}
		last.notice(s)
		if !failed {
			known := last.asked > 0
			last.askTransaction(ctx, kafka, s, l.clock)
			if t := last.waitsFor(s); t != nil && !known {
				l.log.Warn("an open transaction blocks reading: records behind its first record become readable when it ends",
					"topic", name.Topic, "partition", name.Number, "offset", t.First, "open", nameOf(t))
			}
		}
		fetching := s.Running && s.Stopped == nil && !s.Blocked() && l.clock()-s.EndAt < lookAfter
		if !failed && !fetching && last.time == 0 && !last.noticed.IsZero() &&
			(last.tried == 0 || l.clock()-last.tried >= lookAgain) {
			last.askTime(ctx, kafka, s, l.clock)
		}
		seen[name] = last
	}
}

func (l *looks) at(name record.Partition) look {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.by[name]
}

// askOffsets asks where the log ends and, when nothing is committed by us any more, where the group's offset stands.
func (l *look) askOffsets(ctx context.Context, kafka logLooker, s *pipeline.Status, clock func() pipeline.Instant) error {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	end, err := kafka.HighWatermark(ctx, s.Partition)
	if err != nil {
		return err
	}
	l.end, l.at, l.committed = end, clock(), nil
	if s.Stopped != nil {
		if committed, err := kafka.Committed(ctx, s.Partition); err == nil { // else it is as it was
			l.committed = &committed
		}
	}
	return nil
}

// askTransaction asks for which transaction a partition waits, once it has waited for some time: most end within a moment. The same
// one is not asked for again: it is the one until the partition goes on. Whoever may not know goes without.
func (l *look) askTransaction(ctx context.Context, kafka logLooker, s *pipeline.Status, clock func() pipeline.Instant) {
	if !s.Blocked() || s.Position != l.unread {
		l.transaction, l.blocked, l.asked = nil, 0, 0
		return
	}
	now := clock()
	if l.blocked == 0 {
		l.blocked = now
	}
	if now-l.blocked < lookAfter || l.transaction != nil || l.asked > 0 && now-l.asked < lookAgain {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	l.asked = now
	if transaction, err := kafka.OpenTransaction(ctx, s.Partition); err == nil {
		l.transaction = transaction
	}
}

// waitsFor is the transaction that a partition has waited for long enough to be told, with what is known of it. Nil means that it does not.
func (l *look) waitsFor(s *pipeline.Status) *record.Transaction {
	if !s.Blocked() || l.asked == 0 {
		return nil
	}
	t := record.Transaction{Producer: -1, First: s.Position}
	if l.transaction != nil {
		t = *l.transaction
	}
	if t.Since.IsZero() && l.time > 0 {
		t.Since = time.UnixMilli(l.time).UTC()
	}
	if t.Since.IsZero() {
		t.Since = l.noticed.UTC()
	}
	return &t
}

// askTime may fail for this partition alone: its record may be what it has stopped for.
func (l *look) askTime(ctx context.Context, kafka logLooker, s *pipeline.Status, clock func() pipeline.Instant) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	l.tried = clock()
	timestamp, err := kafka.Timestamp(ctx, s.Partition, s.TopicID, l.unread)
	if err == nil {
		l.time = timestamp
	}
}

// notice remembers since when the first unread record is known to be there.
func (l *look) notice(s *pipeline.Status) {
	if s.Undurable < 0 || s.Undurable < s.Position || l.endOf(s) <= s.Undurable {
		l.unread, l.noticed, l.time, l.tried = 0, time.Time{}, 0, 0
		return
	}
	if l.noticed.IsZero() || l.unread != s.Undurable {
		l.unread, l.noticed, l.time, l.tried = s.Undurable, time.Now(), 0, 0
	}
}

func (l *look) endOf(s *pipeline.Status) int64 {
	if l.at > s.EndAt {
		return l.end
	}
	return s.End
}

// completed are the statuses with what was seen of their logs.
func (l *looks) completed(statuses []*pipeline.Status, now time.Time) []*pipeline.Status {
	complete := make([]*pipeline.Status, len(statuses))
	for i, s := range statuses {
		known := *s
		last := l.at(s.Partition)
		known.End = last.endOf(s)
		known.Transaction = last.waitsFor(s)
		if last.committed != nil {
			known.Committed = max(s.Committed, *last.committed)
		}
		noticed := !last.noticed.IsZero() && last.unread == s.Undurable
		switch {
		case noticed && last.time > 0:
			known.UndurableTime = last.time
		case s.UndurableTime > 0:
		case noticed:
			known.UndurableTime = last.noticed.UnixMilli() // it is that old at least
		default:
			known.UndurableTime = now.Add(-s.PendingFor).UnixMilli()
		}
		complete[i] = &known
	}
	return complete
}

// kafkaLogs look by the consumer's own client.
type kafkaLogs struct {
	*kafka.Client
	group string
}

// Committed is the group's offset, -1: none.
func (k kafkaLogs) Committed(ctx context.Context, of record.Partition) (int64, error) {
	answers, err := k.Client.Committed(ctx, k.group, []record.Partition{of})
	if err != nil {
		return 0, err
	}
	return answers[0].Offset, answers[0].Err
}

// Timestamp is that of the first record from an offset on.
func (k kafkaLogs) Timestamp(ctx context.Context, of record.Partition, topicID [16]byte, offset int64) (int64, error) {
	return k.Log(of, topicID).Timestamp(ctx, offset)
}
