package redrive

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"waterwheel/dlq"
	"waterwheel/internal/kafka"
	"waterwheel/internal/kafka/group"
	"waterwheel/internal/record"
)

// world is a Kafka server in memory. It has the logs of topics and the commits of groups.
type world struct {
	logs    map[record.Partition][]record.Record
	commits map[string]map[record.Partition]record.Commit // by the text of the selection

	own     string                       // the selection that runs
	effects int                          // the number of commits and requests to produce so far
	failAt  int                          // the first effect that fails; zero means none
	late    bool                         // the first effect that fails is executed nevertheless
	lasts   bool                         // all later effects fail too, as if the process was killed
	rate    int                          // the number of letters in a batch; zero means the default
	half    bool                         // a failed request to produce has written its first half
	refuses func(*kafka.Message) bool    // nil means that every record is accepted
	first   int64                        // the first offset of the dead-letter topic that still exists
	expired map[record.Partition]int64   // the first offsets of source partitions that still exist
	gaps    map[record.Partition][]int64 // offsets that compaction has removed
	reads   int                          // the number of reads of source partitions
	tries   []int                        // the next requests to produce fail after they have written this many records
}

var (
	errGone     = errors.New("gone")
	errTooLarge = errors.New("too large")
)

func newWorld() *world {
	return &world{logs: map[record.Partition][]record.Record{{Topic: "events", Number: 3}: nil}, commits: map[string]map[record.Partition]record.Commit{}}
}

func (w *world) append(p record.Partition, records ...record.Record) {
	w.logs[p] = append([]record.Record{}, w.logs[p]...)
	for _, r := range records {
		r.Offset = int64(len(w.logs[p]))
		w.logs[p] = append(w.logs[p], r)
	}
}

// written appends messages as Kafka does.
func (w *world) written(p record.Partition, messages ...kafka.Message) {
	for _, m := range messages {
		w.append(p, record.Record{Timestamp: m.Timestamp, Key: m.Key, Value: m.Value, Headers: encoded(m.Headers)})
	}
}

// encoded returns headers as Kafka encodes them.
func encoded(headers []record.Header) []byte {
	if len(headers) == 0 {
		return nil
	}
	b := binary.AppendVarint(nil, int64(len(headers)))
	for _, h := range headers {
		b = append(binary.AppendVarint(b, int64(len(h.Key))), h.Key...)
		if h.Value == nil {
			b = binary.AppendVarint(b, -1)
			continue
		}
		b = append(binary.AppendVarint(b, int64(len(h.Value))), h.Value...)
	}
	return b
}

// letter appends a letter to the dead-letter topic. The source topic has its record, or one that replaces it, without its value.
func (w *world) letter(l record.DeadLetter, own ...record.Header) {
	w.original(&l)
	w.forge(l, own...)
}

// tried returns the headers of a record after an attempt.
func tried(attempt string, own ...record.Header) []record.Header {
	return append(own, record.Header{Key: dlq.HeaderAttempt, Value: []byte(attempt)}, record.Header{Key: dlq.HeaderDriven, Value: []byte("events.dlq/0/0")})
}

func (w *world) original(l *record.DeadLetter) {
	records := w.logs[l.Partition]
	for n := int64(len(records)); n <= l.Offset; n++ {
		records = append(records, record.Record{Offset: n})
	}
	if one := &records[l.Offset]; one.Value == nil {
		one.Key = l.Key
	}
	w.logs[l.Partition] = records
}

// forge appends a letter to the dead-letter topic. Its record need not exist.
func (w *world) forge(l record.DeadLetter, own ...record.Header) {
	w.written(dead, dlq.Message(&l, own, "group"))
}

// Topic implements dlq.Log.
func (w *world) Topic(_ context.Context, name string) (kafka.Topic, error) {
	topic := kafka.Topic{Name: name, ID: sample().TopicID}
	for p := range w.logs {
		if p.Topic == name {
			topic.Partitions = append(topic.Partitions, kafka.Partition{ID: p.Number})
		}
	}
	slices.SortFunc(topic.Partitions, func(a, b kafka.Partition) int { return cmp.Compare(a.ID, b.ID) })
	return topic, nil
}

// Bounds implements dlq.Log.
func (w *world) Bounds(_ context.Context, p record.Partition) (int64, int64, error) {
	first := w.expired[p]
	if p == dead {
		first = w.first
	}
	return first, int64(len(w.logs[p])), nil
}

// Scan implements dlq.Log.
func (w *world) Scan(_ context.Context, p record.Partition, from, to int64, each func(*record.Record) error) (int64, error) {
	if p != dead {
		w.reads++
	}
	for _, r := range w.logs[p][from:to] {
		if slices.Contains(w.gaps[p], r.Offset) {
			continue
		}
		if err := each(&r); err != nil {
			if errors.Is(err, kafka.ErrStop) {
				return from, nil
			}
			return from, err
		}
	}
	return from, nil
}

// effect counts an effect. It reports whether the effect is executed and whether it fails.
func (w *world) effect() (happens bool, err error) {
	w.effects++
	if w.failAt == 0 || w.effects < w.failAt || w.effects > w.failAt && !w.lasts {
		return true, nil
	}
	return w.effects == w.failAt && w.late, errGone
}

func (w *world) Produce(_ context.Context, to record.Partition, messages []kafka.Message) (map[int]error, error) {
	if len(w.tries) > 0 {
		written := w.tries[0]
		w.tries = w.tries[1:]
		w.written(to, messages[:written]...)
		return nil, errGone
	}
	happens, err := w.effect()
	if !happens {
		return nil, err
	}
	if err != nil && w.half {
		messages = messages[:len(messages)/2]
	}
	refused := map[int]error{}
	for i := range messages {
		if w.refuses != nil && w.refuses(&messages[i]) {
			refused[i] = errTooLarge
			continue
		}
		w.written(to, messages[i])
	}
	return refused, err
}

func (w *world) Commit(_ context.Context, c record.Commit) error {
	happens, err := w.effect()
	if happens {
		if w.commits[w.own] == nil {
			w.commits[w.own] = map[record.Partition]record.Commit{}
		}
		w.commits[w.own][c.Partition] = c
	}
	return err
}

// run runs the command once.
func (w *world) run(t *testing.T, change func(*Options)) (Report, error) {
	t.Helper()
	return w.runUntil(t.Context(), t, w, change)
}

// runUntil runs the command until ctx ends. It commits to p.
func (w *world) runUntil(ctx context.Context, t *testing.T, p progress, change func(*Options)) (Report, error) {
	t.Helper()
	o := Options{
		Member: group.Options{Topics: []string{"events"}}, Topics: []string{"events.dlq"},
		Selection: Selection{MaxAttempts: DefaultMaxAttempts}, Rate: w.rate,
	}
	if change != nil {
		change(&o)
	}
	w.own = o.Selection.String()
	var pasts []past
	for text, committed := range w.commits {
		s, err := parseSelection(text)
		if err != nil {
			t.Fatal(err)
		}
		pasts = append(pasts, past{s, maps.Clone(committed)})
	}
	spans, err := dlq.Spans(ctx, w, o.Topics)
	if err != nil {
		t.Fatal(err)
	}
	d := newDriver(w, pasts, o)
	d.target, d.progress = w, p
	return d.run(ctx, spans)
}

// arrived counts the records in the source topic by their value.
func (w *world) arrived() map[string]int {
	counts := map[string]int{}
	for p, records := range w.logs {
		for _, r := range records {
			if p.Topic == "events" {
				counts[string(r.Value)]++
			}
		}
	}
	return counts
}

var dead = record.Partition{Topic: "events.dlq", Number: 0}

// sample returns a letter of the third partition.
func sample() record.DeadLetter {
	return record.DeadLetter{
		Place: record.Place{Partition: record.Partition{Topic: "events", Number: 3}, Offset: 182}, TopicID: [16]byte{1, 2, 3}, Part: record.WholeRecord,
		Key: []byte("k"), Value: []byte("not json"), Timestamp: 1_700_000_000_123, Reason: "not_json", Message: "not_json: expected a value",
	}
}

// filled returns a world with n letters of four source partitions and with two reasons. Every tenth letter is there twice.
func filled(n int) *world {
	w := newWorld()
	for i := range 4 { // the earlier records
		w.append(record.Partition{Topic: "events", Number: int32(i)}, make([]record.Record, 5)...)
	}
	for i := range n {
		l := sample()
		l.Number, l.Offset, l.Value = int32(i%4), int64(i), fmt.Appendf(nil, "letter %d", i)
		if i%3 == 0 {
			l.Reason = "bad_time"
		}
		w.letter(l)
		if i%10 == 0 {
			w.letter(l)
		}
	}
	return w
}

// isOnce fails unless each of n letters is in the source topic once.
func (w *world) isOnce(t *testing.T, n int) {
	t.Helper()
	counts := w.arrived()
	delete(counts, "")
	for i := range n {
		if got := counts[fmt.Sprintf("letter %d", i)]; got != 1 {
			t.Fatalf("letter %d went back %d times", i, got)
		}
	}
	if len(counts) != n {
		t.Fatalf("%d different letters went back, want %d", len(counts), n)
	}
}
