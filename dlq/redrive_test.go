package dlq

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
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
	tries   []int              // the coming requests to produce fail after they have written so many records
}

var (
	errGone     = errors.New("gone")
	errTooLarge = errors.New("too large")
)

func newWorld() *world {
	return &world{logs: map[Place][]Record{}, commits: map[string]map[Place]Committed{}}
}

func (w *world) append(p Place, records ...Record) {
	for _, r := range records {
		r.Offset = int64(len(w.logs[p]))
		w.logs[p] = append(w.logs[p], r)
	}
}

// letter appends a letter to a dead-letter topic.
func (w *world) letter(p Place, l Letter) {
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

func (w *world) Bounds(_ context.Context, topic string, partition int32) (int64, int64, error) {
	p, first := Place{topic, partition}, int64(0)
	if p == dead {
		first = w.first
	}
	return first, int64(len(w.logs[p])), nil
}

func (w *world) Read(_ context.Context, topic string, partition int32, from, to int64, each func(*Record) error) error {
	for _, r := range w.logs[Place{topic, partition}][from:to] {
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

func TestRedriveTwiceFindsNothingTheSecondTime(t *testing.T) {
	w := filled(1200)
	report, err := w.run(t, nil)
	if err != nil {
		t.Fatal(err)
	}
	w.isOnce(t, 1200)
	want := Report{Total: 1320, Read: 1320, Driven: 1200, Doubles: 120, Reasons: map[string]int64{"bad_time": 400, "not_json": 800}}
	if diff := cmp.Diff(want, report); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
	if report, err = w.run(t, nil); err != nil || report.Driven != 0 || report.Total != 0 {
		t.Errorf("the second run: %+v, %v", report, err)
	}
	w.isOnce(t, 1200)
}

func TestLetterGoesBackAsTheRecordItWas(t *testing.T) {
	w := newWorld()
	w.append(Place{"events", 3})
	l := sample()
	l.Attempt = 2
	w.letter(dead, l)
	if _, err := w.run(t, nil); err != nil {
		t.Fatal(err)
	}
	want := []Record{{
		Timestamp: l.Timestamp, Key: l.Key, Value: l.Value,
		Headers: append(slices.Clone(l.Headers), Header{Key: "waterwheel.attempt", Value: []byte("3")}),
	}}
	if diff := cmp.Diff(want, w.logs[Place{"events", 3}]); diff != "" {
		t.Errorf("record (-want +got):\n%s", diff)
	}
}

// The letter of a sink connector of Kafka Connect with errors.deadletterqueue.context.headers.enable, made by hand of its
// documentation.
func TestLetterOfKafkaConnectGoesBack(t *testing.T) {
	w := newWorld()
	headers := []Header{{Key: "trace", Value: []byte("7")}}
	for _, pair := range [][2]string{
		{"__connect.errors.topic", "events"},
		{"__connect.errors.partition", "2"},
		{"__connect.errors.offset", "41"},
		{"__connect.errors.connector.name", "mongo-sink"},
		{"__connect.errors.task.id", "0"},
		{"__connect.errors.stage", "VALUE_CONVERTER"},
		{"__connect.errors.class.name", "org.apache.kafka.connect.json.JsonConverter"},
		{"__connect.errors.exception.class.name", "org.apache.kafka.connect.errors.DataException"},
		{"__connect.errors.exception.message", "Converting byte[] to Kafka Connect data failed due to serialization error: "},
		{"__connect.errors.exception.stacktrace", "org.apache.kafka.connect.errors.DataException\n\tat …"},
	} {
		headers = append(headers, Header{Key: pair[0], Value: []byte(pair[1])})
	}
	for range 2 {
		w.append(dead, Record{Timestamp: 5, Key: []byte("k"), Value: []byte("{"), Headers: headers})
	}
	report, err := w.run(t, func(o *RedriveOptions) {
		o.Selection.Reasons = []string{"org.apache.kafka.connect.errors.DataException"}
	})
	if err != nil || report.Driven != 1 || report.Doubles != 1 {
		t.Fatalf("report %+v, %v", report, err)
	}
	want := []Record{{Timestamp: 5, Key: []byte("k"), Value: []byte("{"), Headers: []Header{
		{Key: "trace", Value: []byte("7")}, {Key: "waterwheel.attempt", Value: []byte("2")},
	}}}
	if diff := cmp.Diff(want, w.logs[Place{"events", 2}]); diff != "" {
		t.Errorf("record (-want +got):\n%s", diff)
	}
}

func TestWhatStays(t *testing.T) {
	w := newWorld()
	for i, change := range []func(*Letter){
		func(l *Letter) { l.Attempt = 3 }, func(l *Letter) { l.Attempt = 7 }, func(l *Letter) { l.Cut = "value of 9 bytes" },
		func(l *Letter) { l.Attempt = 2 },
	} {
		l := sample()
		l.Offset = int64(i)
		change(&l)
		w.letter(dead, l)
	}
	w.append(dead, Record{Value: []byte("somebody's own")})
	report, err := w.run(t, nil)
	if err != nil || report.Driven != 1 || report.Exhausted != 2 || report.Cut != 1 || report.Others != 1 {
		t.Errorf("report %+v, %v", report, err)
	}
	report, err = w.run(t, func(o *RedriveOptions) { o.Selection.MaxAttempts = 8 })
	if err != nil || report.Driven != 2 || report.Doubles != 1 || report.Cut != 1 {
		t.Errorf("with more attempts: report %+v, %v", report, err)
	}
}

// A crash at any commit or request, before or after its effect, leaves the next run to finish the work.
func TestCrashAnywhereIsHealed(t *testing.T) {
	const n = 60
	for _, late := range []bool{false, true} {
		for _, half := range []bool{false, true} {
			for failAt := 1; ; failAt++ {
				crashed := true
				synctest.Test(t, func(t *testing.T) {
					w := filled(n)
					w.rate = 10
					w.failAt, w.late, w.lasts, w.half = failAt, late, true, half
					_, err := w.run(t, nil)
					if crashed = err != nil; !crashed {
						return
					}
					if !errors.Is(err, errGone) {
						t.Fatal(err)
					}
					w.failAt = 0
					if _, err := w.run(t, nil); err != nil {
						t.Fatal(err)
					}
					w.isOnce(t, n)
				})
				if !crashed {
					if failAt < 15 {
						t.Fatalf("only %d effects: the letters did not go in several parcels", failAt)
					}
					break
				}
			}
		}
	}
}

// A run whose group has passed to another tries nothing again: the other has.
func TestNoTryAfterTheGroupIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := filled(20)
		w.tries = []int{2}
		w.failAt, w.lasts = 2, true // the commit after the first request, and all that follows
		if _, err := w.run(t, nil); err == nil || !strings.HasPrefix(err.Error(), "committing") || w.effects != 2 {
			t.Errorf("%v after %d effects", err, w.effects)
		}
	})
}

// Letters that are deleted after a run was killed in the middle of them hold up no other selection: neither all, nor those of
// its parcel and of the next.
func TestDeletedLettersLeaveNothingUnfinished(t *testing.T) {
	for _, first := range []int64{22, 15, 5} {
		synctest.Test(t, func(t *testing.T) {
			w := filled(20) // 22 letters
			w.rate, w.failAt, w.lasts = 10, 2, true
			if _, err := w.run(t, nil); !errors.Is(err, errGone) {
				t.Fatal(err)
			}
			w.failAt, w.first = 0, first
			other := func(o *RedriveOptions) { o.Selection.MaxAttempts++ }
			if _, err := w.run(t, other); !errors.As(err, new(*UnfinishedError)) {
				t.Fatalf("the intent is not seen: %v", err)
			}
			if _, err := w.run(t, func(o *RedriveOptions) { o.DryRun = true }); err != nil {
				t.Fatal(err)
			}
			if c := w.commits[""][dead]; c.Metadata == "" {
				t.Fatalf("a dry run committed %+v", c)
			}
			if _, err := w.run(t, nil); err != nil {
				t.Fatal(err)
			}
			if c := w.commits[""][dead]; c != (Committed{Offset: 22}) {
				t.Errorf("committed %+v", c)
			}
			if _, err := w.run(t, other); err != nil {
				t.Errorf("another selection: %v", err)
			}
		})
	}
}

// Of records that are equal, as many go back as there are, though half of a request is written before the crash.
func TestEqualRecordsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.append(Place{"events", 3})
		for i := range 20 {
			l := sample()
			l.Offset = int64(i)
			w.letter(dead, l)
		}
		w.failAt, w.late, w.lasts, w.half = 2, true, true, true
		if _, err := w.run(t, nil); !errors.Is(err, errGone) || w.arrived()["not json"] != 10 {
			t.Fatalf("%v, %v arrived", err, w.arrived())
		}
		w.failAt = 0
		report, err := w.run(t, nil)
		if err != nil || report.Arrived != 10 || report.Driven != 10 || w.arrived()["not json"] != 20 {
			t.Errorf("%+v, %v, %v arrived", report, err, w.arrived())
		}
	})
}

// refusesSome refuses every seventh letter of filled, from the second on.
func refusesSome(r *Record) bool {
	var i int
	_, err := fmt.Sscanf(string(r.Value), "letter %d", &i)
	return err == nil && i%7 == 1
}

// isOnceButRefused fails unless each of n letters is in the source topic once, and none of those that refusesSome refuses.
func (w *world) isOnceButRefused(t *testing.T, n int) {
	t.Helper()
	counts := w.arrived()
	for i := range n {
		name, want := fmt.Sprintf("letter %d", i), 1
		if refusesSome(&Record{Value: []byte(name)}) {
			want = 0
		}
		if counts[name] != want {
			t.Fatalf("%s went back %d times, want %d", name, counts[name], want)
		}
	}
}

// A letter that its topic refuses stays alone: all others go back, of its own parcel and of later ones, and neither the same
// selection nor another finds anything unfinished.
func TestRefusedLetterHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := filled(60)
		w.rate, w.refuses = 10, refusesSome
		var refused []string
		report, err := w.run(t, func(o *RedriveOptions) {
			o.Refused = func(r Refusal) {
				if !errors.Is(r.Err, errTooLarge) || r.To.Topic != "events" {
					t.Errorf("refusal %+v", r)
				}
				refused = append(refused, fmt.Sprintf("%s/%d %s", r.Place, r.Offset, w.logs[r.Place][r.Offset].Value))
			}
		})
		if err != nil || report.Refused != 9 || report.Driven != 51 || report.Read != report.Total {
			t.Fatalf("%+v, %v", report, err)
		}
		w.isOnceButRefused(t, 60)
		if len(refused) != 9 || !slices.Contains(refused, "events.dlq/0/2 letter 1") {
			t.Errorf("refused are %q", refused)
		}
		if c := w.commits[""][dead]; c.Metadata != "" || c.Offset != 66 {
			t.Errorf("committed %+v", c)
		}
		for _, attempts := range []int{DefaultMaxAttempts, DefaultMaxAttempts + 1} {
			report, err = w.run(t, func(o *RedriveOptions) { o.Selection.MaxAttempts = attempts })
			if err != nil || report.Driven != 0 || report.Refused != 0 {
				t.Errorf("afterwards, with --max-attempts %d: %+v, %v", attempts, report, err)
			}
		}
	})
}

// Also when a run is cut off, or an answer is lost, beside refused letters.
func TestCrashBesideRefusedLettersIsHealed(t *testing.T) {
	for _, lasts := range []bool{false, true} {
		for failAt := 1; failAt <= 30; failAt++ {
			synctest.Test(t, func(t *testing.T) {
				w := filled(60)
				w.rate, w.refuses = 10, refusesSome
				w.failAt, w.late, w.lasts, w.half = failAt, true, lasts, true
				_, _ = w.run(t, nil) // it may fail
				w.failAt = 0
				if _, err := w.run(t, nil); err != nil {
					t.Fatal(err)
				}
				w.isOnceButRefused(t, 60)
			})
		}
	}
}

// The limit bounds what a topic is offered that takes nothing.
func TestRefusedLettersCountForTheLimit(t *testing.T) {
	w := filled(60)
	w.refuses = func(*Record) bool { return true }
	report, err := w.run(t, func(o *RedriveOptions) { o.Limit = 5 })
	if err != nil || report.Refused != 5 || report.Driven != 0 || w.commits[""][dead].Offset != 6 {
		t.Errorf("%+v, %v, committed %+v", report, err, w.commits[""])
	}
}

// Equal records are counted too when several tries of one run fail: the half that the first has written, and what the second
// has, or has not.
func TestEqualRecordsAreCountedAtEachTry(t *testing.T) {
	for _, c := range []struct {
		name  string
		tries []int // how many records each request writes before it fails
	}{
		{"the first writes a half, the second nothing", []int{10, 0}},
		{"each writes a part", []int{7, 6, 5}},
		{"the answer alone is lost, after a half", []int{10, 10}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				w.append(Place{"events", 3})
				for i := range 20 {
					l := sample()
					l.Offset = int64(i)
					w.letter(dead, l)
				}
				w.tries = c.tries
				report, err := w.run(t, nil)
				if err != nil || report.Driven != 20 || report.Arrived != 0 || w.arrived()["not json"] != 20 {
					t.Errorf("%+v, %v, %v arrived", report, err, w.arrived())
				}
			})
		})
	}
}

// An answer that is lost does not end the run, nor does a record arrive twice.
func TestLostAnswerIsLookedUp(t *testing.T) {
	for _, late := range []bool{false, true} {
		for _, half := range []bool{false, true} {
			for _, failAt := range []int{2, 3, 5, 8, 10} {
				synctest.Test(t, func(t *testing.T) {
					w := filled(60)
					w.rate = 10
					w.failAt, w.late, w.half = failAt, late, half
					if _, err := w.run(t, nil); err != nil && !strings.HasPrefix(err.Error(), "committing") {
						t.Fatal(err)
					}
					if _, err := w.run(t, nil); err != nil {
						t.Fatal(err)
					}
					w.isOnce(t, 60)
				})
			}
		}
	}
}

// Selections that overlap, and crash, and take turns, bring each letter back once.
func TestSelectionsTogetherDriveOnce(t *testing.T) {
	selections := []Selection{
		{MaxAttempts: 3},
		{Filter: Filter{Reasons: []string{"bad_time"}}, MaxAttempts: 3},
		{Filter: Filter{Reasons: []string{"not_json", "bad_time"}}, MaxAttempts: 4},
	}
	refused := 0
	for seed := range uint64(300) {
		var unfinished *UnfinishedError
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			w := filled(60)
			w.rate = 10
			for range 8 {
				w.effects, w.failAt, w.lasts = 0, random.IntN(12), random.IntN(2) == 0
				w.late, w.half = random.IntN(2) == 0, random.IntN(2) == 0
				s := selections[random.IntN(len(selections))]
				_, err := w.run(t, func(o *RedriveOptions) { o.Selection, o.Limit = s, int64(random.IntN(40)) })
				if err != nil && !errors.Is(err, errGone) && !errors.As(err, &unfinished) {
					t.Fatalf("seed %d: %v", seed, err)
				}
			}
			w.failAt = 0
			for left := slices.Clone(selections); len(left) > 0; {
				_, err := w.run(t, func(o *RedriveOptions) { o.Selection = left[0] })
				switch {
				case err == nil:
					left = left[1:]
				case errors.As(err, &unfinished):
					left = append([]Selection{unfinished.Selection}, left...)
				default:
					t.Fatalf("seed %d: %v", seed, err)
				}
			}
			if unfinished != nil {
				refused++
			}
			w.isOnce(t, 60)
		})
	}
	if refused == 0 {
		t.Error("no selection ever met another that was cut off")
	}
}

func TestLimitAndRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := filled(100)
		begin := time.Now()
		report, err := w.run(t, func(o *RedriveOptions) { o.Limit, o.Rate = 30, 10 })
		if took := time.Since(begin); err != nil || report.Driven != 30 || took != 3*time.Second {
			t.Errorf("%d letters in %v, %v; want 30 in 3s", report.Driven, took, err)
		}
		if report, err = w.run(t, nil); err != nil || report.Driven != 70 {
			t.Errorf("the rest: %d, %v", report.Driven, err)
		}
		w.isOnce(t, 100)
	})
}

func TestDryRunChangesNothing(t *testing.T) {
	w := filled(700)
	w.failAt, w.lasts = 1, true // any effect fails
	report, err := w.run(t, func(o *RedriveOptions) { o.DryRun = true })
	if err != nil || report.Driven != 700 || report.Doubles != 70 || w.effects != 0 {
		t.Errorf("report %+v, %v, %d effects", report, err, w.effects)
	}
}

func TestForeignTopicStopsRatherThanBeingPassed(t *testing.T) {
	w := newWorld()
	l := sample()
	l.Topic = "orders"
	w.letter(dead, l)
	if _, err := w.run(t, nil); err == nil || !strings.Contains(err.Error(), `"orders"`) {
		t.Errorf("error %v, want one that names the topic", err)
	}
	if c := w.commits[""][dead]; c.Offset != 0 {
		t.Errorf("committed %+v past it", c)
	}
}

func TestInterruptedRunGoesOn(t *testing.T) {
	w := filled(1100)
	ctx, cancel := context.WithCancelCause(t.Context())
	errAsked := errors.New("asked to stop")
	o := RedriveOptions{
		Selection: Selection{MaxAttempts: 3}, Sources: []string{"events"}, Report: func(Report) { cancel(errAsked) },
	}
	spans, err := Spans(ctx, w, []string{"events.dlq"})
	if err != nil {
		t.Fatal(err)
	}
	report, err := NewRedrive(w, w, w, o).Run(ctx, spans)
	if !errors.Is(err, errAsked) || report.Driven != parcelLetters {
		t.Fatalf("%d driven, %v; want one parcel", report.Driven, err)
	}
	if c := w.commits[""][dead]; c.Metadata != "" || c.Offset == 0 {
		t.Errorf("committed %+v", c)
	}
	if _, err := w.run(t, nil); err != nil {
		t.Fatal(err)
	}
	w.isOnce(t, 1100)
}

func TestIntentFitsIntoACommit(t *testing.T) {
	const most = 4096 // offset.metadata.max.bytes
	w := newWorld()
	topic := strings.Repeat("t", longestTopic-3)
	var sources []string
	for i := range 200 {
		l := sample()
		l.Topic, l.Partition = fmt.Sprintf("%s%03d", topic, i%60), int32(2_000_000_000+i)
		l.Offset = int64(i)
		sources = append(sources, l.Topic)
		w.letter(dead, l)
	}
	longest := 0
	progress := progressFunc(func(metadata string) { longest = max(longest, len(metadata)) })
	o := RedriveOptions{Selection: Selection{MaxAttempts: 3}, Sources: sources}
	spans, err := Spans(t.Context(), w, []string{"events.dlq"})
	if err != nil {
		t.Fatal(err)
	}
	report, err := NewRedrive(w, w, progress, o).Run(t.Context(), spans)
	if err != nil || report.Driven != 200 || longest > most || longest < most/2 {
		t.Errorf("%d driven, longest metadata of %d bytes, %v", report.Driven, longest, err)
	}
}

type progressFunc func(metadata string)

func (f progressFunc) Commit(_ context.Context, _ Place, _ int64, metadata string) error {
	f(metadata)
	return nil
}

func TestIntentAndSelectionComeBackAsTheyWere(t *testing.T) {
	i := &intent{until: 1 << 60, ends: map[Place]int64{{"a", 0}: 7, {"b.c_d-e", 12}: 0}}
	got, err := parseIntent(i.String())
	if err != nil || got.until != i.until || !maps.Equal(got.ends, i.ends) {
		t.Errorf("%q came back as %+v, %v", i, got, err)
	}
	if got, err := parseIntent(""); got != nil || err != nil {
		t.Errorf("no metadata is %+v, %v", got, err)
	}
	for _, text := range []string{"redrive", "redrive until=x", "redrive until=1 a=2", "redrive until=1 a/x=2", "redrive until=1 a/1"} {
		if _, err := parseIntent(text); err == nil {
			t.Errorf("%q was taken", text)
		}
	}
	s := Selection{MaxAttempts: 5, Filter: Filter{
		Reasons: []string{"org.x.E$1", "bad_time", "bad_time"}, Topics: []string{"a&b"},
		From: time.Unix(1_700_000_000, 5).UTC(), To: time.Unix(1_800_000_000, 0).UTC(),
	}}
	back, err := ParseSelection(s.String())
	if err != nil || back.String() != s.String() || len(back.Reasons) != 2 || !back.From.Equal(s.From) {
		t.Errorf("%q came back as %+v, %v", s, back, err)
	}
	for _, text := range []string{"reasons=x", "from=yesterday", "max-attempts=x", "%zz"} {
		if _, err := ParseSelection(text); err == nil {
			t.Errorf("the selection %q was taken", text)
		}
	}
}

func TestPositionsTellPartsAndTopicsApart(t *testing.T) {
	p := positions{}
	whole := sample()
	part, other, recreated := whole, whole, whole
	part.Part, other.Topic, recreated.TopicID = 0, "orders", [16]byte{9}
	for _, l := range []Letter{whole, part, other, recreated} {
		if p.has(&l) || !p.add(&l) || p.add(&l) || !p.has(&l) {
			t.Errorf("%s %d part %d is not told apart", l.Topic, l.Offset, l.Part)
		}
	}
}
