package dlq

import (
	"context"
	"errors"
	"hash/maphash"
	"slices"
	"time"

	"waterwheel/internal/bitmap"
	"waterwheel/internal/kafka"
	"waterwheel/internal/record"
)

// Log reads topics without being a member of a group: dead-letter topics, and the source topics of letters. *kafka.Scanner
// implements it. Calls do not overlap.
type Log interface {
	// Topic describes a topic. A topic that is deleted and created again has another id.
	Topic(ctx context.Context, name string) (kafka.Topic, error)
	// Bounds returns the first offset that still exists, and the offset after the last.
	Bounds(ctx context.Context, of record.Partition) (first, end int64, err error)
	// Scan calls each for the records in [from, to), in order. Their bytes are valid during the call. An error of each ends the
	// scan and is returned unchanged, except kafka.ErrStop. first is the first offset after the last record that was deleted
	// before it could be read.
	Scan(ctx context.Context, of record.Partition, from, to int64, each func(*record.Record) error) (first int64, err error)
}

// Span is the range of offsets [First, End) of a partition.
type Span struct {
	record.Partition
	First, End int64
}

// Spans returns all partitions of topics as they are now, in order.
func Spans(ctx context.Context, log Log, topics []string) ([]Span, error) {
	var spans []Span
	for _, topic := range topics {
		found, err := log.Topic(ctx, topic)
		if err != nil {
			return nil, err
		}
		for _, p := range found.Partitions {
			s := Span{Partition: record.Partition{Topic: topic, Number: p.ID}}
			if s.First, s.End, err = log.Bounds(ctx, s.Partition); err != nil {
				return nil, err
			}
			spans = append(spans, s)
		}
	}
	return spans, nil
}

// Offsets returns the number of offsets in the spans.
func Offsets(spans []Span) (n int64) {
	for _, s := range spans {
		n += s.End - s.First
	}
	return n
}

// Scan calls each for every record of the spans, including those that are not letters. An error of each ends the scan and is
// returned unchanged, except kafka.ErrStop.
func Scan(ctx context.Context, log Log, spans []Span, each func(*Found) error) error {
	for _, s := range spans {
		if s.First >= s.End {
			continue
		}
		stopped := false
		_, err := log.Scan(ctx, s.Partition, s.First, s.End, func(r *record.Record) error {
			f := found(s.Partition, r)
			err := each(&f)
			stopped = errors.Is(err, kafka.ErrStop)
			return err
		})
		if err != nil || stopped {
			return err
		}
	}
	return nil
}

// At calls each for the record at a place, if the place is within the spans.
func At(ctx context.Context, log Log, spans []Span, at record.Place, each func(*Found) error) error {
	for _, s := range spans {
		if s.Partition == at.Partition && at.Offset >= s.First && at.Offset < s.End {
			return Scan(ctx, log, []Span{{at.Partition, at.Offset, at.Offset + 1}}, each)
		}
	}
	return nil
}

// Filter selects letters. The zero value selects all.
type Filter struct {
	// Reasons and Topics list the reasons and the source topics wanted. Empty means all.
	Reasons, Topics []string
	// From and To bound the records' timestamps. To is exclusive. Zero means no bound. A letter has the time of its record, not
	// the time of its writing.
	From, To time.Time
}

// Selects reports whether a letter is wanted.
func (f *Filter) Selects(l *record.DeadLetter) bool {
	switch {
	case len(f.Reasons) > 0 && !slices.Contains(f.Reasons, l.Reason):
		return false
	case len(f.Topics) > 0 && !slices.Contains(f.Topics, l.Topic):
		return false
	case !f.From.IsZero() && l.Timestamp < f.From.UnixMilli():
		return false
	}
	return f.To.IsZero() || l.Timestamp < f.To.UnixMilli()
}

// Stats are counts of letters.
type Stats struct {
	// Letters is the number of letters.
	Letters int64 `json:"deadLetters"`
	// Copies is the number of letters whose position was counted before. Re-drives skip them.
	Copies int64 `json:"copies"`
	// Others is the number of records that are not letters.
	Others int64 `json:"others"`
	// Oldest and Newest are the bounds of the records' timestamps. They are zero if there are no letters.
	Oldest time.Time `json:"oldest,omitzero"`
	Newest time.Time `json:"newest,omitzero"`
	// Reasons and Topics count letters by reason and by source topic.
	Reasons map[string]int64 `json:"reasons"`
	Topics  map[string]int64 `json:"topics"`
	// Hours counts letters by the hour of their record's timestamp (UTC) and by reason.
	Hours map[time.Time]map[string]int64 `json:"-"`

	known Positions
}

// NewStats returns empty Stats.
func NewStats() *Stats {
	return &Stats{Reasons: map[string]int64{}, Topics: map[string]int64{}, Hours: map[time.Time]map[string]int64{}, known: NewPositions()}
}

// Add counts a record of a dead-letter topic.
func (s *Stats) Add(f *Found) {
	if f.Err != nil {
		s.Others++
		return
	}
	l := &f.Letter
	s.Letters++
	if !s.known.Add(l) {
		s.Copies++
	}
	s.Reasons[l.Reason]++
	s.Topics[l.Topic]++
	at := record.Time(l.Timestamp)
	hour := at.Truncate(time.Hour)
	if s.Hours[hour] == nil {
		s.Hours[hour] = map[string]int64{}
	}
	s.Hours[hour][l.Reason]++
	if s.Oldest.IsZero() || at.Before(s.Oldest) {
		s.Oldest = at
	}
	if s.Newest.IsZero() || at.After(s.Newest) {
		s.Newest = at
	}
}

// keyDigests is the number of distinct digests of keys. Anyone who may write to the dead-letter topic can write a letter with
// another key at the same position. Only with a probability of one in keyDigests does it count as the same letter. More digests
// would make sparse bitmaps.
const keyDigests = 1 << 12

// Positions is a set of positions of letters. It takes one bit for each record, so that millions of letters fit.
type Positions struct {
	seed    maphash.Seed // random, so that nobody can choose keys with the same digest
	origins map[origin]*marked
}

// origin is a source partition, and a digest of the record's key. The id is zero in letters of Kafka Connect.
type origin struct {
	topic     string
	id        [16]byte
	partition int32
	key       uint16
}

// marked are the positions of one source partition.
type marked struct {
	records bitmap.Set            // whole records, by offset
	parts   map[int64]*bitmap.Set // elements of array records, by offset
}

// NewPositions returns an empty set.
func NewPositions() Positions {
	return Positions{seed: maphash.MakeSeed(), origins: map[origin]*marked{}}
}

// digest returns different values for a null key and an empty one, which are different in Kafka.
func (p Positions) digest(key []byte) uint16 {
	if key == nil {
		return 0
	}
	return uint16(1 + maphash.Bytes(p.seed, key)%(keyDigests-1))
}

// bitmap returns the bitmap that holds the letter's bit, and the number of that bit.
func (p Positions) bitmap(l *record.DeadLetter) (*bitmap.Set, uint64) {
	o := origin{topic: l.Topic, id: l.TopicID, partition: l.Number, key: p.digest(l.Key)}
	m := p.origins[o]
	if m == nil {
		m = &marked{parts: map[int64]*bitmap.Set{}}
		p.origins[o] = m
	}
	if l.Part == record.WholeRecord {
		return &m.records, uint64(l.Offset)
	}
	parts := m.parts[l.Offset]
	if parts == nil {
		parts = &bitmap.Set{}
		m.parts[l.Offset] = parts
	}
	return parts, uint64(l.Part)
}

// Add reports whether the letter's position was not in the set before.
func (p Positions) Add(l *record.DeadLetter) bool {
	set, bit := p.bitmap(l)
	return set.Add(bit)
}

// Has reports whether the letter's position is in the set.
func (p Positions) Has(l *record.DeadLetter) bool {
	set, bit := p.bitmap(l)
	return set.Has(bit)
}
