package verify

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/claim"
	"waterwheel/internal/record"
	"waterwheel/internal/timeseries"
)

// Range is the part of a partition to verify: the offsets [From, To). To is at most the committed offset, which was read before
// anything else.
type Range struct {
	Source   timeseries.Source
	From, To int64
	// Lost are the offsets that a consumer noted because retention had deleted them before it could read them. The ranges may
	// overlap.
	Lost []claim.Lost
	// Notes explain why the range differs from the requested one, and what its committed offset means.
	Notes []string
}

func (r *Range) partition() record.Partition {
	return record.Partition{Topic: r.Source.Topic, Number: r.Source.Partition}
}

// Limit is one end of a range: an offset, or the first record from a time on, or neither.
type Limit struct {
	Offset *int64
	Time   time.Time
	// Name is the flag or the setting that the limit comes from, for notes.
	Name string
}

// Question is what to verify of a topic.
type Question struct {
	Topic      string
	Partitions []int32
	Group      string
	// Pipeline is the topic and collection that commits of the group must belong to.
	Pipeline claim.Provenance
	// From defaults to the log's start, and To to the committed offset, which To cannot exceed.
	From, To Limit
}

// logStart names the default start of a range.
const logStart = "the log's start"

// Ranges determines the range of each partition. It reads the committed offsets first. It rejects an offset that belongs to
// another pipeline, as run does.
func (q *Question) Ranges(ctx context.Context, offsets Offsets) ([]Range, error) {
	partitions := make([]record.Partition, len(q.Partitions))
	for i, number := range q.Partitions {
		partitions[i] = record.Partition{Topic: q.Topic, Number: number}
	}
	committed, err := offsets.Committed(ctx, q.Group, partitions)
	if err != nil {
		return nil, fmt.Errorf("reading the committed offsets of group %q: %w", q.Group, err)
	}
	if !slices.ContainsFunc(committed, func(c claim.Committed) bool { return c.Offset >= 0 }) {
		return nil, fmt.Errorf("group %q has committed no offset of %s, so there is nothing to verify yet: check that the group has run, and that KAFKA_GROUP_ID is right",
			q.Group, q.Topic)
	}
	ranges := make([]Range, len(q.Partitions))
	for i, of := range partitions {
		r := &ranges[i]
		r.Source = timeseries.Source{Topic: of.Topic, TopicID: q.Pipeline.TopicID, Partition: of.Number}
		end, err := r.stored(q, committed[i])
		if err != nil {
			return nil, err
		}
		if end < 0 {
			continue // an empty range
		}
		if err := r.bound(ctx, q, offsets, end); err != nil {
			return nil, fmt.Errorf("asking for the offsets of %s: %w", of, err)
		}
	}
	return ranges, nil
}

// stored returns the offset below which everything must be stored. -1 means that nothing need be stored, and a note gives the
// reason.
func (r *Range) stored(q *Question, committed claim.Committed) (int64, error) {
	switch meaning, of := q.Pipeline.Meaning(committed); meaning {
	case claim.OtherCollection:
		return 0, fmt.Errorf("group %q writes %s to %s, but the settings name %s: verify with the settings of the consumer",
			q.Group, r.partition(), of.Namespace, q.Pipeline.Namespace)
	case claim.Nothing:
		r.note("group %q has committed nothing: nothing to verify", q.Group)
		return -1, nil
	case claim.OtherTopic:
		r.note("the offset was committed for a topic of this name that has since been deleted: nothing to verify")
		return -1, nil
	case claim.OfAnotherProgram:
		r.note("another program committed the offset: records that only that program has read count as missing")
	case claim.AsItIs:
		r.note("the offset was not committed by a consumer of this program, but perhaps by a reset: it is used unchanged")
	}
	return committed.Offset, nil
}

func (r *Range) note(format string, args ...any) {
	r.Notes = append(r.Notes, fmt.Sprintf(format, args...))
}

// bound resolves From and To between the log's start and the offset below which everything is stored.
func (r *Range) bound(ctx context.Context, q *Question, offsets Offsets, stored int64) error {
	first, end, err := offsets.Bounds(ctx, r.partition())
	if err != nil {
		return err
	}
	if stored > end {
		r.note("the committed offset %d is beyond the log's end %d: the log was truncated, the offset set by hand, or a transaction is open", stored, end)
		stored = end
	}
	if r.From, err = r.limit(ctx, offsets, &q.From, first); err != nil {
		return err
	}
	if r.To, err = r.limit(ctx, offsets, &q.To, stored); err != nil {
		return err
	}
	r.clip(&q.From, first, stored)
	return nil
}

func (r *Range) limit(ctx context.Context, offsets Offsets, l *Limit, otherwise int64) (int64, error) {
	switch {
	case l.Offset != nil:
		return *l.Offset, nil
	case l.Time.IsZero():
		return otherwise, nil
	}
	return offsets.OffsetAt(ctx, r.partition(), l.Time.UnixMilli())
}

// clip limits the range to what can be verified, and adds notes. The log begins at first.
func (r *Range) clip(from *Limit, first, stored int64) {
	begin, end := logStart, "--to"
	if from.Offset != nil || !from.Time.IsZero() {
		begin = from.Name
	}
	if r.To > stored {
		r.note("only offsets below the committed one, %d, can be verified", stored)
		r.To = stored
	}
	if r.To == stored {
		end = "the committed offset"
	}
	if r.From < first && r.From < r.To {
		r.note("retention has removed the records below offset %d: they cannot be verified", first)
		r.From, begin = first, logStart
	}
	asked := begin != logStart || end == "--to" || r.From > r.To // false for a partition without records if no limit was requested
	if r.From >= r.To && asked {
		r.note("nothing to verify: %s (offset %d) is not below %s (%d)", begin, r.From, end, r.To)
	}
}

// Lost are offsets that retention deleted before a consumer read them, and that are not stored.
type Lost struct {
	Count int64 `json:"count"`
	// First are the first ranges of such offsets.
	First []LostRange `json:"first"`
}

// LostRange are the offsets [From, To).
type LostRange struct {
	From int64 `json:"from"`
	To   int64 `json:"to"`
}

// lost finds out which of the offsets noted as lost are not stored. A former owner may have read some, and stored them without
// committing.
func (v *Verifier) lost(ctx context.Context, r Range) (Lost, error) {
	found := Lost{First: []LostRange{}}
	for _, noted := range disjoint(r.Lost) {
		for from := noted.From; from < noted.To; from += v.o.Window {
			to := min(noted.To, from+v.o.Window)
			stored, err := v.storedOffsets(ctx, r.Source, from, to)
			if err != nil {
				return found, fmt.Errorf("reading the buckets of records that Kafka has deleted, in %s/%d: %w", r.Source.Topic, r.Source.Partition, err)
			}
			next := from
			stored.each(func(p timeseries.Position) {
				found.add(next, p.Offset, v.o.Examples)
				next = p.Offset + 1
			})
			found.add(next, to, v.o.Examples)
		}
	}
	return found, nil
}

// storedOffsets returns the offsets in [from, to) that a bucket or segment lists.
func (v *Verifier) storedOffsets(ctx context.Context, source timeseries.Source, from, to int64) (*set, error) {
	stored, b := newSet(from), listing{}
	err := v.o.Buckets.Find(ctx, source, from, to, false, func(document bson.Raw) error {
		b.read(document)
		for _, p := range b.positions {
			if p.Offset >= from && p.Offset < to {
				stored.add(timeseries.Position{Offset: p.Offset})
			}
		}
		return nil
	})
	return stored, err
}

// add counts the offsets [from, to), if there are any.
func (l *Lost) add(from, to int64, examples int) {
	if from >= to {
		return
	}
	l.Count += to - from
	if last := len(l.First) - 1; last >= 0 && l.First[last].To == from {
		l.First[last].To = to
	} else if len(l.First) < examples {
		l.First = append(l.First, LostRange{from, to})
	}
}

// disjoint merges ranges that overlap.
func disjoint(ranges []claim.Lost) (apart []claim.Lost) {
	ranges = slices.SortedFunc(slices.Values(ranges), func(a, b claim.Lost) int { return cmp.Compare(a.From, b.From) })
	for _, r := range ranges {
		if n := len(apart); n > 0 && r.From <= apart[n-1].To {
			apart[n-1].To = max(apart[n-1].To, r.To)
			continue
		}
		apart = append(apart, r)
	}
	return apart
}
