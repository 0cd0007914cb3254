package status

import (
	"strings"
	"testing"
	"time"

	"waterwheel/internal/record"
	"waterwheel/pipeline"
)

var noon = time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)

// aged returns a partition that is read, and whose oldest record that is not durable has this age.
func aged(number int32, now time.Time, age time.Duration) *pipeline.Status {
	return &pipeline.Status{
		Partition: record.Partition{Topic: "events", Number: number}, Running: true, Since: 1,
		Position: 10, Undurable: 9, Committed: 9, End: 10, UndurableTime: now.Add(-age).UnixMilli(),
	}
}

// hourOf samples a consumer every ten seconds until noon.
func hourOf(t *testing.T, samples int, at func(i int, now time.Time) seen) *hourSeen {
	t.Helper()
	h := newHour(time.Second, noon.Add(-time.Hour))
	for i := range samples {
		now := noon.Add(time.Duration(i-samples+1) * sampleInterval)
		s := at(i, now)
		s.at = now
		h.note(s)
	}
	return h.until(noon)
}

func TestAnHourIsKept(t *testing.T) {
	v := hourOf(t, 2*hourSamples, func(i int, now time.Time) seen {
		return seen{
			done: pipeline.Totals{Stored: int64(i) * 1000, DeadLetters: int64(i)}, generation: 3,
			statuses: []*pipeline.Status{aged(0, now, time.Duration(i)*time.Second/100)},
		}
	})
	for i, s := range v.samples {
		want := float64(time.Duration(i+hourSamples)*time.Second/100) / 1e9
		if s.tick == 0 || s.stored != 100 || s.deadLetters != 1 || s.lag != 1 || s.freshness < want-0.01 || s.freshness > want+0.01 {
			t.Fatalf("sample %d: %+v, want a freshness of %v", i, s, want)
		}
		if s.generation != 0 || s.claims != 0 {
			t.Errorf("sample %d: the generation and the claim began before the hour: %+v", i, s)
		}
	}
	if first := v.time(0); first != noon.Add(-hourSamples*sampleInterval+sampleInterval) {
		t.Errorf("the hour begins at %v", first)
	}
}

// TestAnHourHasGaps checks that the time without samples is shown as unknown, and that an hour later no sample is left.
func TestAnHourHasGaps(t *testing.T) {
	h := newHour(time.Second, noon.Add(-time.Hour))
	for _, at := range []time.Duration{0, 10 * time.Second, 30 * time.Minute} {
		now := noon.Add(at)
		h.note(seen{at: now, generation: -1, statuses: []*pipeline.Status{aged(0, now, 0)}})
	}
	known := func(v *hourSeen) (n int) {
		for i := range v.samples {
			if v.samples[i].tick != 0 {
				n++
			}
		}
		return n
	}
	v := h.until(noon.Add(31 * time.Minute))
	if known(v) != 3 || v.samples[hourSamples-1].tick != 0 || v.samples[hourSamples-7].tick == 0 {
		t.Errorf("%d samples are known", known(v))
	}
	if n := known(h.until(noon.Add(5 * time.Hour))); n != 0 {
		t.Errorf("%d samples are known five hours later", n)
	}
	later := noon.Add(5 * time.Hour)
	h.note(seen{at: later, generation: -1, statuses: []*pipeline.Status{aged(1, later, 0)}})
	if v := h.until(later); len(v.walls) != 1 {
		t.Errorf("partitions on the wall: %v", v.walls)
	}
}

// TestTheFirstMinuteCountsWholly checks that the chart and the first sentence count the measurements stored before the first
// sample, and no others.
func TestTheFirstMinuteCountsWholly(t *testing.T) {
	const first = 600
	h := newHour(time.Second, noon)
	stored := func(after time.Duration, total int64) int64 { return h.until(noon.Add(after)).lastMinute(total) }
	if got := stored(3*time.Second, first); got != first {
		t.Errorf("before a sample: %d, want %d", got, first)
	}
	for after := sampleInterval; after <= 2*time.Minute; after += sampleInterval {
		h.note(seen{at: noon.Add(after), generation: -1, done: pipeline.Totals{Stored: first, DeadLetters: 2}})
		want := int64(first)
		if after > time.Minute {
			want = 0
		}
		if got := stored(after, first); got != want {
			t.Errorf("after %v: %d, want %d", after, got, want)
		}
		if got := stored(after+2*time.Second, first+50); got != want+50 {
			t.Errorf("after %v, and 50 more since the sample: %d, want %d", after, got, want+50)
		}
	}
	v := h.until(noon.Add(2 * time.Minute))
	if s := v.samples[hourSamples-12]; s.stored != first/sampleInterval.Seconds() || s.deadLetters != 2 {
		t.Errorf("the first sample: %+v", s)
	}
	h.note(seen{at: noon.Add(3 * time.Hour), generation: -1, done: pipeline.Totals{Stored: first + 5}})
	if got := stored(3*time.Hour, first+5); got != 5 {
		t.Errorf("after a pause of hours: %d, want 5", got)
	}
}

// TestTheWorstOfACellCounts checks that a cell shows its worst state, even if the state was better before and after.
func TestTheWorstOfACellCounts(t *testing.T) {
	stopped := aged(1, noon, 0)
	stopped.Stopped = &record.StopError{Reason: "kafka"}
	waits := aged(2, noon, 0)
	waits.Running = false
	unknown := aged(3, noon, 0)
	unknown.Undurable = -1
	joining := aged(4, noon, 0)
	joining.Running, joining.Between = false, true
	for _, c := range []struct {
		status *pipeline.Status
		want   cell
	}{
		{aged(0, noon, time.Second), cellFresh},
		{aged(0, noon, 16*time.Second), cellLate},
		{aged(0, noon, 3*time.Minute), cellStale},
		{stopped, cellStopped},
		{waits, cellWaiting},
		{unknown, cellWaiting},
		{joining, cellFresh},
	} {
		v := hourOf(t, 2, func(_ int, now time.Time) seen {
			if now.Equal(noon) {
				return seen{statuses: []*pipeline.Status{c.status}}
			}
			return seen{}
		})
		if got := v.walls[c.status.Partition][hourCells-1]; got != c.want {
			t.Errorf("%v is %v, want %v", c.status.Partition, got, c.want)
		}
	}
	h := newHour(time.Minute, noon.Add(-time.Hour))
	for _, at := range []time.Duration{0, 10 * time.Second} { // both are in one cell
		h.note(seen{at: noon.Add(at), statuses: []*pipeline.Status{aged(0, noon.Add(at), 4*time.Minute-22*at)}})
	}
	if got := h.until(noon.Add(10 * time.Second)).walls[record.Partition{Topic: "events"}][hourCells-1]; got != cellLate {
		t.Errorf("the cell is %v, want %v: a flush interval of a minute makes four minutes late", got, cellLate)
	}
}

// TestWhatHappenedIsDrawn checks that rebalances, claims, letters and outages are drawn under the wall at their times.
func TestWhatHappenedIsDrawn(t *testing.T) {
	v := hourOf(t, 100, func(i int, now time.Time) seen {
		s := seen{generation: 1, statuses: []*pipeline.Status{aged(0, now, 0)}}
		if i >= 50 {
			s.generation, s.done.DeadLetters = 2, 7
			s.statuses[0].Since = 2
		}
		s.failing[pipeline.MongoDB] = i >= 60 && i < 70
		return s
	})
	var all []string
	for _, r := range v.eventRows() {
		for _, p := range r.Paths {
			all = append(all, r.Name+"|"+r.Word+"|"+p.D+"|"+p.Title)
		}
	}
	want := strings.Join([]string{
		"rebalances|2 times|M260 0h2v12h-2z|11:43:30 generation 1 began",
		"rebalances|2 times|M310 0h2v12h-2z|11:51:50 generation 2 began",
		"claims|2 times|M260 0h2v12h-2z|11:43:30 1 partition claimed",
		"claims|2 times|M310 0h2v12h-2z|11:51:50 1 partition claimed",
		"dead letters|1 time|M310 0h2v12h-2z|11:51:50 7 dead letters",
		"MongoDB failed|1 time|M320 0h10v12h-10z|11:53:30 MongoDB failed",
	}, "\n")
	if got := strings.Join(all, "\n"); got != want {
		t.Errorf("events:\n%s\nwant:\n%s", got, want)
	}
}

// TestAWallOfManyPartitionsShowsTheWorst checks that the wall shows the worst partitions and says how many it leaves out.
func TestAWallOfManyPartitionsShowsTheWorst(t *testing.T) {
	v := hourOf(t, 10, func(_ int, now time.Time) seen {
		var s seen
		for n := range int32(maxRows + 50) {
			age := time.Duration(0)
			if n > maxRows+40 {
				age = time.Hour
			}
			s.statuses = append(s.statuses, aged(n, now, age))
		}
		return s
	})
	rows, hidden := v.wallRows()
	if len(rows) != maxRows || hidden != 50 {
		t.Fatalf("%d rows, %d hidden", len(rows), hidden)
	}
	if last := rows[maxRows-1]; last.Name != "events/249" || last.Word != "stale" || !strings.Contains(last.Spoken, "stale for 2 min") {
		t.Errorf("the last row is %+v", last)
	}
}

func TestChartsHaveGapsAndAScale(t *testing.T) {
	v := &hourSeen{}
	for i, stored := range map[int]float64{0: 0, 1: 50, 2: 100, 5: 20} {
		v.samples[i] = sample{tick: 1, stored: stored}
	}
	c := v.charts()[0]
	if want := "M0 59.0L1 59.0L2 30.0L3 1.0"; !strings.HasPrefix(c.Line, "M0 59.0") || !strings.Contains(c.Line, "L2 30.0") || !strings.Contains(c.Line, "L3 1.0M5 47.4") {
		t.Errorf("the line is %q, want it to begin like %q", c.Line, want)
	}
	if c.Now != "20" || c.Most != "100" || !strings.HasPrefix(c.Values, "0.0,50,100,,,20,,") {
		t.Errorf("now %s, at most %s, values %s", c.Now, c.Most, c.Values)
	}
}

func TestCountsAreShort(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 9999: "9,999", 61_240: "61.2k", 1.5e6: "1.5M", 2e9: "2G"} {
		if got := Count(v); got != want {
			t.Errorf("%v is %s, want %s", v, got, want)
		}
	}
}
