package redrive

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"waterwheel/dlq"
	"waterwheel/internal/record"
)

// foreign returns a world with a genuine letter of events/3/4, between two forged letters.
func foreign(change func(*record.DeadLetter)) *world {
	w := newWorld()
	genuine := sample()
	genuine.Offset, genuine.Value = 4, []byte("genuine")
	w.original(&genuine)
	forged := genuine
	forged.Value, forged.Reason = []byte("forged"), "bad_time"
	change(&forged)
	w.forge(forged)
	w.forge(genuine)
	w.forge(forged)
	return w
}

// TestForgedLettersStay checks that a letter that does not belong to the record in its headers is kept and reported with the
// reason. It must not block other letters, not even the genuine one of the same position in another selection.
func TestForgedLettersStay(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*record.DeadLetter)
		wrong  string
	}{
		"no such partition": {func(l *record.DeadLetter) { l.Number = 7 }, "events has no partition 7"},
		"no such record":    {func(l *record.DeadLetter) { l.Offset = 5 }, "the end offset of events/3 is 5, but the dead letter names offset 5"},
		"far behind":        {func(l *record.DeadLetter) { l.Offset = 1 << 60 }, "is 5, but the dead letter names offset 1152921504606846976"},
		"another topic's":   {func(l *record.DeadLetter) { l.TopicID[0]++ }, "topic events was deleted and created again after the dead letter was written"},
		"another key":       {func(l *record.DeadLetter) { l.Key = []byte("other") }, "the dead letter's key differs from the key of the record events/3/4"},
		"no key":            {func(l *record.DeadLetter) { l.Key = nil }, "the dead letter's key differs"},
		"an empty key":      {func(l *record.DeadLetter) { l.Key = []byte{} }, "the dead letter's key differs"},
		"another record's":  {func(l *record.DeadLetter) { l.Offset = 2 }, "the dead letter's key differs from the key of the record events/3/2"},
		"an element's":      {func(l *record.DeadLetter) { l.Part, l.Key = 2, nil }, "the dead letter's key differs"},
		"a foreign topic's": {func(l *record.DeadLetter) { l.Topic = "orders" }, `letters of topic "orders" belong in the dead-letter topic "orders.dlq"`},
	} {
		for _, first := range []string{"", "bad_time"} { // the reason of the forged letters
			w := foreign(c.change)
			var told []string
			options := func(o *Options) {
				o.TopicFor = func(source string) string { return source + ".dlq" }
				o.Foreign = func(s Foreign) { told = append(told, fmt.Sprintf("%s: %s", s.Place, s.Wrong)) }
			}
			report, err := w.run(t, func(o *Options) {
				options(o)
				if first != "" {
					o.Selection.Reasons = []string{first}
				}
			})
			if err != nil || report.Foreign != 2 || len(told) != 2 || !slices.ContainsFunc(told, func(s string) bool {
				return strings.HasPrefix(s, "events.dlq/0/2: ") && strings.Contains(s, c.wrong)
			}) {
				t.Errorf("%s: %+v, %v, told %q, want %q", name, report, err, told, c.wrong)
			}
			if first != "" {
				if report, err = w.run(t, options); err != nil {
					t.Errorf("%s: then all: %+v, %v", name, report, err)
				}
			}
			if got := w.arrived(); got["genuine"] != 1 || got["forged"] != 0 || report.Driven != 1 {
				t.Errorf("%s: %v arrived, %+v", name, got, report)
			}
			if len(w.logs[record.Partition{Topic: "events", Number: 7}]) != 0 {
				t.Errorf("%s: it went to a partition that was not there", name)
			}
		}
	}
}

// TestLettersOfRecordsThatAreGoneGoBack checks that letters whose records are no longer in the log are redriven without a
// comparison, and counted separately.
func TestLettersOfRecordsThatAreGoneGoBack(t *testing.T) {
	w := filled(40)
	for i := range 4 {
		w.logs[record.Partition{Topic: "events", Number: int32(i)}] = slices.Clone(w.logs[record.Partition{Topic: "events", Number: int32(i)}][:37+i])
	}
	w.expired = map[record.Partition]int64{{Topic: "events", Number: 0}: 20} // letters 0, 4 … 16
	w.gaps = map[record.Partition][]int64{{Topic: "events", Number: 1}: {5, 6, 7}, {Topic: "events", Number: 2}: {38}}
	report, err := w.run(t, nil)
	if err != nil || report.Driven != 40 || report.Gone != 5+2 || report.Foreign != 0 {
		t.Errorf("%+v, %v", report, err)
	}
	w.isOnce(t, 40)
}

// TestStraysDoNotCountForTheLimit checks that the limit counts only redriven letters, and none of those that are kept.
func TestStraysDoNotCountForTheLimit(t *testing.T) {
	w := newWorld()
	for i := range 60 {
		l := sample()
		l.Offset, l.Value = int64(i), fmt.Appendf(nil, "letter %d", i)
		if i%3 != 0 {
			w.original(&l)
			l.Key = []byte("other")
			w.forge(l)
			continue
		}
		w.letter(l)
	}
	report, err := w.run(t, func(o *Options) { o.Limit = 7 })
	if err != nil || report.Driven != 7 || report.Foreign != 12 {
		t.Errorf("%+v, %v", report, err)
	}
	if report, err = w.run(t, nil); err != nil || report.Driven != 13 || report.Foreign != 28 {
		t.Errorf("the rest: %+v, %v", report, err)
	}
}

// TestOriginalsAreReadInPasses checks that records are read in passes over their partitions and not one by one. Records that are
// far apart are looked up.
func TestOriginalsAreReadInPasses(t *testing.T) {
	w := filled(1200)
	if _, err := w.run(t, func(o *Options) { o.DryRun = true }); err != nil || w.reads > 3*4 {
		t.Errorf("%d reads for three batches of four partitions, %v", w.reads, err)
	}
	w = newWorld()
	for _, offset := range []int64{0, 10, 5000, 5001, 20_000} {
		l := sample()
		l.Offset = offset
		w.letter(l)
	}
	if report, err := w.run(t, func(o *Options) { o.DryRun = true }); err != nil || report.Driven != 5 || w.reads != 3 {
		t.Errorf("%d reads for three groups of records, %+v, %v", w.reads, report, err)
	}
}

func TestDoubtSaysWhatSpeaksAgainstALetter(t *testing.T) {
	w := foreign(func(l *record.DeadLetter) { l.Key = nil })
	var got []string
	span := dlq.Span{Partition: dead, End: 2}
	err := dlq.Scan(t.Context(), w, []dlq.Span{span}, func(f *dlq.Found) error {
		wrong, err := doubt(t.Context(), w, f)
		got = append(got, wrong)
		return err
	})
	if want := []string{"the dead letter's key differs from the key of the record events/3/4", ""}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
}
