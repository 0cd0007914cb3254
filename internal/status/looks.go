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

// The log of a partition is looked at lookAfter after its worker last heard of it. The worker does not fetch while it waits, is
// paused or has stopped.
const (
	lookAfter   = 5 * time.Second
	lookTimeout = 2 * time.Second
	// lookAgain is the time between two attempts to find out how old a record is.
	lookAgain = 30 * time.Second
)

// logLooker asks Kafka about a partition.
type logLooker interface {
	// HighWatermark returns the log's end, including records that cannot be read yet.
	HighWatermark(ctx context.Context, of record.Partition) (end int64, err error)
	// Committed returns the group's offset. -1 means that there is none.
	Committed(ctx context.Context, of record.Partition) (int64, error)
	// Timestamp returns the timestamp of the first record from an offset on. Zero means that there is none.
	Timestamp(ctx context.Context, of record.Partition, topicID [16]byte, offset int64) (int64, error)
	// OpenTransaction returns the transaction that blocks reading of the partition. Nil means that none is open.
	OpenTransaction(ctx context.Context, of record.Partition) (*record.Transaction, error)
}

// looks holds what a worker cannot know of its partition while it does not fetch: where the log ends, and how old the first
// unread record is. It is safe for concurrent use.
type looks struct {
	clock func() pipeline.Instant
	log   *slog.Logger

	mu sync.Mutex
	by map[record.Partition]look
}

// look holds the facts about one partition.
type look struct {
	end       int64
	committed *int64           // set for a partition that has stopped. Nil means unknown.
	at        pipeline.Instant // when end and committed were fetched. Zero means never.
	// unread is the offset of the first unread record, noticed is when it was first seen, and time is its timestamp in
	// milliseconds. A zero time means unknown.
	unread  int64
	noticed time.Time
	time    int64
	tried   pipeline.Instant // when its timestamp was last requested. Zero means never.
	// transaction blocks the partition since blocked, and asked is when that was found out. Zero means that the partition is not
	// blocked, or that Kafka was not asked.
	transaction    *record.Transaction
	blocked, asked pipeline.Instant
}

func newLooks(clock func() pipeline.Instant, log *slog.Logger) *looks {
	return &looks{clock: clock, log: log, by: map[record.Partition]look{}}
}

// refresh looks at the partitions about which their workers know nothing recent. It stops asking after the first request that
// fails, because the others would fail too.
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
				l.log.Warn("an open transaction blocks reading: records after the transaction's first record become readable when the transaction ends",
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

// askOffsets fetches the log's end. For a stopped partition, which commits nothing, it also fetches the group's offset.
func (l *look) askOffsets(ctx context.Context, kafka logLooker, s *pipeline.Status, clock func() pipeline.Instant) error {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	end, err := kafka.HighWatermark(ctx, s.Partition)
	if err != nil {
		return err
	}
	l.end, l.at, l.committed = end, clock(), nil
	if s.Stopped != nil {
		if committed, err := kafka.Committed(ctx, s.Partition); err == nil { // otherwise it is unknown
			l.committed = &committed
		}
	}
	return nil
}

// askTransaction fetches the transaction that blocks a partition, once the partition has been blocked for some time. Most
// transactions end within a moment. It does not fetch the transaction again until the partition continues. Without the right to
// see it, the transaction stays unknown.
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

// waitsFor returns the transaction that blocks a partition, with all known facts. Nil means that there is none, or not for long.
func (l *look) waitsFor(s *pipeline.Status) *record.Transaction {
	if !s.Blocked() || l.asked == 0 {
		return nil
	}
	t := record.Transaction{Producer: -1, First: s.Position}
	if l.transaction != nil {
		t = *l.transaction
	}
	if t.Since.IsZero() && l.time > 0 {
		t.Since = record.Time(l.time)
	}
	if t.Since.IsZero() {
		t.Since = l.noticed.UTC()
	}
	return &t
}

// askTime may fail for this partition alone, because the partition may have stopped at this record.
func (l *look) askTime(ctx context.Context, kafka logLooker, s *pipeline.Status, clock func() pipeline.Instant) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	l.tried = clock()
	timestamp, err := kafka.Timestamp(ctx, s.Partition, s.TopicID, l.unread)
	if err == nil {
		l.time = timestamp
	}
}

// notice records since when the first unread record is known to exist.
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

// completed returns the statuses completed with the facts about their logs.
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
			known.UndurableTime = last.noticed.UnixMilli() // it is at least that old
		default:
			known.UndurableTime = now.Add(-s.PendingFor).UnixMilli()
		}
		complete[i] = &known
	}
	return complete
}

// kafkaLogs implements logLooker with the consumer's own client.
type kafkaLogs struct {
	*kafka.Client
	group string
}

// Committed returns the group's offset. -1 means that there is none.
func (k kafkaLogs) Committed(ctx context.Context, of record.Partition) (int64, error) {
	answers, err := k.Client.Committed(ctx, k.group, []record.Partition{of})
	if err != nil {
		return 0, err
	}
	return answers[0].Offset, answers[0].Err
}

// Timestamp returns the timestamp of the first record from an offset on.
func (k kafkaLogs) Timestamp(ctx context.Context, of record.Partition, topicID [16]byte, offset int64) (int64, error) {
	return k.Log(of, topicID).Timestamp(ctx, offset)
}
