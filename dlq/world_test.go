package dlq

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"
)

// world is a Kafka in memory: the logs of topics, and what groups have committed.
type world struct {
	logs    map[Place][]Record
	commits map[string]map[Place]Committed // by the text of the selection

	own     string             // the selection that runs
	effects int                // commits and requests to produce so far
	failAt  int                // fail from this effect on, 0: never
	late    bool               // the first one that fails has its effect all the same
	lasts   bool               // all that follow fail too: the process is gone
	rate    int                // makes parcels of so many letters, 0: the usual
	half    bool               // a request to produce that fails has written its first half
	refuses func(*Record) bool // nil: every record is taken
	first   int64              // the first offset of the dead-letter topic that is still there
	expired map[Place]int64    // the first offsets of source partitions that are still there
	gaps    map[Place][]int64  // offsets that compaction has taken
	reads   int                // of source partitions
	tries   []int              // the coming requests to produce fail after they have written so many records
}

var (
	errGone     = errors.New("gone")
	errTooLarge = errors.New("too large")
)

func newWorld() *world {
	return &world{logs: map[Place][]Record{{"events", 3}: nil}, commits: map[string]map[Place]Committed{}}
}

func (w *world) append(p Place, records ...Record) {
	w.logs[p] = append([]Record{}, w.logs[p]...)
	for _, r := range records {
		r.Offset = int64(len(w.logs[p]))
		w.logs[p] = append(w.logs[p], r)
	}
}

// letter appends a letter to a dead-letter topic. Its topic has the record, or one that stands for it, without its value.
func (w *world) letter(p Place, l Letter) {
	w.original(&l)
	w.forge(p, l)
}

func (w *world) original(l *Letter) {
	records := w.logs[l.source()]
	for n := int64(len(records)); n <= l.Offset; n++ {
		records = append(records, Record{Offset: n})
	}
	if one := &records[l.Offset]; one.Value == nil {
		one.Key = l.Key
	}
	w.logs[l.source()] = records
}

// forge appends a letter to a dead-letter topic, whose record need not be there.
func (w *world) forge(p Place, l Letter) {
	w.append(p, Record{Timestamp: l.Timestamp, Key: l.Key, Value: l.Value, Headers: envelope(&l, "group")})
}

func (w *world) Partitions(_ context.Context, topic string) (list []int32, _ error) {
	for p := range w.logs {
		if p.Topic == topic {
			list = append(list, p.Partition)
		}
	}
	slices.Sort(list)
	return list, nil
}

func (w *world) TopicID(context.Context, string) ([16]byte, error) { return sample().TopicID, nil }

func (w *world) Bounds(_ context.Context, topic string, partition int32) (int64, int64, error) {
	p := Place{topic, partition}
	first := w.expired[p]
	if p == dead {
		first = w.first
	}
	return first, int64(len(w.logs[p])), nil
}

func (w *world) Read(_ context.Context, topic string, partition int32, from, to int64, each func(*Record) error) error {
	p := Place{topic, partition}
	if p != dead {
		w.reads++
	}
	for _, r := range w.logs[p][from:to] {
		if slices.Contains(w.gaps[p], r.Offset) {
			continue
		}
		if err := each(&r); err != nil {
			if errors.Is(err, ErrStop) {
				return nil
			}
			return err
		}
	}
	return nil
}

// effect counts an effect; it says whether it happens and whether it fails.
func (w *world) effect() (happens bool, err error) {
	w.effects++
	if w.failAt == 0 || w.effects < w.failAt || w.effects > w.failAt && !w.lasts {
		return true, nil
	}
	return w.effects == w.failAt && w.late, errGone
}

func (w *world) Produce(_ context.Context, to Place, records []Record) error {
	if len(w.tries) > 0 {
		written := w.tries[0]
		w.tries = w.tries[1:]
		w.append(to, records[:written]...)
		return errGone
	}
	happens, err := w.effect()
	if !happens {
		return err
	}
	if err != nil && w.half {
		records = records[:len(records)/2]
	}
	refused := &RefusedError{Errs: map[int]error{}}
	for i := range records {
		if w.refuses != nil && w.refuses(&records[i]) {
			refused.Errs[i] = errTooLarge
			continue
		}
		w.append(to, records[i])
	}
	if err == nil && len(refused.Errs) > 0 {
		return refused
	}
	return err
}

func (w *world) Commit(_ context.Context, place Place, offset int64, metadata string) error {
	happens, err := w.effect()
	if happens {
		if w.commits[w.own] == nil {
			w.commits[w.own] = map[Place]Committed{}
		}
		w.commits[w.own][place] = Committed{Offset: offset, Metadata: metadata}
	}
	return err
}

// run is one run of the command.
func (w *world) run(t *testing.T, change func(*RedriveOptions)) (Report, error) {
	t.Helper()
	o := RedriveOptions{Selection: Selection{MaxAttempts: DefaultMaxAttempts}, Sources: []string{"events"}, Settle: time.Second, Rate: w.rate}
	if change != nil {
		change(&o)
	}
	w.own = o.Selection.String()
	for text, committed := range w.commits {
		s, err := ParseSelection(text)
		if err != nil {
			t.Fatal(err)
		}
		p := Past{Selection: s, Committed: maps.Clone(committed)}
		if text == w.own {
			o.Own = p
		} else {
			o.Others = append(o.Others, p)
		}
	}
	spans, err := Spans(t.Context(), w, []string{"events.dlq"})
	if err != nil {
		t.Fatal(err)
	}
	return NewRedrive(w, w, w, o).Run(t.Context(), spans)
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

var dead = Place{"events.dlq", 0}

// filled has n letters, of four source partitions and two reasons, every tenth of them twice.
func filled(n int) *world {
	w := newWorld()
	for i := range 4 { // what was there before
		w.append(Place{"events", int32(i)}, make([]Record, 5)...)
	}
	for i := range n {
		l := sample()
		l.Partition, l.Offset, l.Value = int32(i%4), int64(i), fmt.Appendf(nil, "letter %d", i)
		if i%3 == 0 {
			l.Reason = "bad_time"
		}
		w.letter(dead, l)
		if i%10 == 0 {
			w.letter(dead, l)
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
