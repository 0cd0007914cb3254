package dlq

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// straying has a genuine letter of events/3/4, and one that is forged beside it on each side.
func straying(change func(*Letter)) *world {
	w := newWorld()
	genuine := sample()
	genuine.Offset, genuine.Value = 4, []byte("genuine")
	w.original(&genuine)
	forged := genuine
	forged.Value, forged.Reason = []byte("forged"), "bad_time"
	change(&forged)
	w.forge(dead, forged)
	w.forge(dead, genuine)
	w.forge(dead, forged)
	return w
}

// A letter that is not of the record that it names stays, is told of with what is wrong, and holds up no other: not even the
// genuine one of the same position, which another selection drives.
func TestForgedLettersStay(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Letter)
		wrong  string
	}{
		"no such partition": {func(l *Letter) { l.Partition = 7 }, "events has no partition 7"},
		"no such record":    {func(l *Letter) { l.Offset = 5 }, "events/3 ends at 5, before offset 5"},
		"far behind":        {func(l *Letter) { l.Offset = 1 << 60 }, "before offset 1152921504606846976"},
		"another topic's":   {func(l *Letter) { l.TopicID[0]++ }, "events was created anew since"},
		"another key":       {func(l *Letter) { l.Key = []byte("other") }, "its key is not that of the record events/3/4"},
		"no key":            {func(l *Letter) { l.Key = nil }, "its key is not that"},
		"an empty key":      {func(l *Letter) { l.Key = []byte{} }, "its key is not that"},
		"another record's":  {func(l *Letter) { l.Offset = 2 }, "its key is not that of the record events/3/2"},
		"an element's":      {func(l *Letter) { l.Part, l.Key = 2, nil }, "its key is not that"},
		"a foreign topic's": {func(l *Letter) { l.Topic = "orders" }, `letters of "orders" stand in "orders.dlq"`},
	} {
		for _, first := range []string{"", "bad_time"} { // the forged ones' reason
			w := straying(c.change)
			var told []string
			options := func(o *RedriveOptions) {
				o.TopicFor = func(source string) string { return source + ".dlq" }
				o.Stray = func(s Stray) { told = append(told, fmt.Sprintf("%s/%d: %s", s.Place, s.Offset, s.Wrong)) }
			}
			report, err := w.run(t, func(o *RedriveOptions) {
				options(o)
				if first != "" {
					o.Selection.Reasons = []string{first}
				}
			})
			if err != nil || report.Strays != 2 || len(told) != 2 || !slices.ContainsFunc(told, func(s string) bool {
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
			if len(w.logs[Place{"events", 7}]) != 0 {
				t.Errorf("%s: it went to a partition that was not there", name)
			}
		}
	}
}

// What the log has no more cannot be compared: it goes back, and is counted apart.
func TestLettersOfRecordsThatAreGoneGoBack(t *testing.T) {
	w := filled(40)
	for i := range 4 {
		w.logs[Place{"events", int32(i)}] = slices.Clone(w.logs[Place{"events", int32(i)}][:37+i])
	}
	w.expired = map[Place]int64{{"events", 0}: 20} // letters 0, 4 … 16
	w.gaps = map[Place][]int64{{"events", 1}: {5, 6, 7}, {"events", 2}: {38}}
	report, err := w.run(t, nil)
	if err != nil || report.Driven != 40 || report.Gone != 5+2 || report.Strays != 0 {
		t.Errorf("%+v, %v", report, err)
	}
	w.isOnce(t, 40)
}

// A limit counts what goes back, whatever stays on the way there.
func TestStraysDoNotCountForTheLimit(t *testing.T) {
	w := newWorld()
	for i := range 60 {
		l := sample()
		l.Offset, l.Value = int64(i), fmt.Appendf(nil, "letter %d", i)
		if i%3 != 0 {
			w.original(&l)
			l.Key = []byte("other")
			w.forge(dead, l)
			continue
		}
		w.letter(dead, l)
	}
	report, err := w.run(t, func(o *RedriveOptions) { o.Limit = 7 })
	if err != nil || report.Driven != 7 || report.Strays != 12 {
		t.Errorf("%+v, %v", report, err)
	}
	if report, err = w.run(t, nil); err != nil || report.Driven != 13 || report.Strays != 28 {
		t.Errorf("the rest: %+v, %v", report, err)
	}
}

// Records are read in passes over their partitions, not one by one; those far apart are looked up.
func TestOriginalsAreReadInPasses(t *testing.T) {
	w := filled(1200)
	if _, err := w.run(t, func(o *RedriveOptions) { o.DryRun = true }); err != nil || w.reads > 3*4 {
		t.Errorf("%d reads for three parcels of four partitions, %v", w.reads, err)
	}
	w = newWorld()
	for _, offset := range []int64{0, 10, 5000, 5001, 20_000} {
		l := sample()
		l.Offset = offset
		w.letter(dead, l)
	}
	if report, err := w.run(t, func(o *RedriveOptions) { o.DryRun = true }); err != nil || report.Driven != 5 || w.reads != 3 {
		t.Errorf("%d reads for three groups of records, %+v, %v", w.reads, report, err)
	}
}

func TestDoubtSaysWhatSpeaksAgainstALetter(t *testing.T) {
	w := straying(func(l *Letter) { l.Key = nil })
	for offset, want := range []string{"its key is not that of the record events/3/4", ""} {
		f := found(dead, &w.logs[dead][offset])
		if got, err := Doubt(t.Context(), w, &f.Letter); got != want || err != nil {
			t.Errorf("%d: %q, %v; want %q", offset, got, err, want)
		}
	}
}
