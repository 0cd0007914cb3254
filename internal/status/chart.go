package status

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"waterwheel/internal/cli/text"
	"waterwheel/internal/record"
	"waterwheel/internal/words"
	"waterwheel/pipeline"
)

// These are the heights of a chart and of a row of the wall, in units of their drawings. The width has one unit for each sample
// or cell.
const (
	chartHeight = 60
	rowHeight   = 12
)

// chart is a value with its history of one hour.
type chart struct {
	Name, Now string
	// Line and Area are SVG paths.
	Line, Area string
	Most       string // the largest value of the hour
	Spoken     string // text for screen readers
	Values     string // one value for each sample, separated by commas. An empty value means unknown.
	Unit       string // the unit of Values: count or seconds
}

// charts returns the four charts of the page.
func (v *hourSeen) charts() []chart {
	return []chart{
		v.chart("stored per second", count, storedOf),
		v.chart("freshness", seconds, freshnessOf),
		v.chart("lag, in records", count, lagOf),
		v.deadLetters(),
	}
}

func storedOf(s *sample) float64      { return s.stored }
func freshnessOf(s *sample) float64   { return s.freshness }
func lagOf(s *sample) float64         { return s.lag }
func deadLettersOf(s *sample) float64 { return s.deadLetters }

// deadLetters is the chart of dead letters. Its Now is the total of the hour, not the present value.
func (v *hourSeen) deadLetters() chart {
	c := v.chart("dead letters in this hour", count, deadLettersOf)
	if c.Now != text.Unknown {
		c.Now = Count(v.lastHour(deadLettersOf))
	}
	c.Spoken = c.Name + ": " + c.Now
	return c
}

// lastHour adds up one value over all samples.
func (v *hourSeen) lastHour(value func(*sample) float64) (sum float64) {
	for i := range v.samples {
		sum += value(&v.samples[i])
	}
	return sum
}

// unit defines how values are formatted.
type unit struct {
	name   string
	format func(float64) string
}

var (
	count   = unit{"count", Count}
	seconds = unit{"seconds", Age}
)

// Count formats a number of things. Large numbers get three digits and a suffix.
func Count(v float64) string {
	switch {
	case v < 1e4:
		return text.Grouped(int64(math.Round(v)))
	case v < 1e6:
		return fmt.Sprintf("%.3gk", v/1e3)
	case v < 1e9:
		return fmt.Sprintf("%.3gM", v/1e6)
	}
	return fmt.Sprintf("%.3gG", v/1e9)
}

// Age formats seconds as a rounded length of time.
func Age(v float64) string { return age(time.Duration(v * float64(time.Second))) }

// age formats a duration as a rounded length of time.
func age(d time.Duration) string {
	switch {
	case d < 10*time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < 2*time.Minute:
		return fmt.Sprintf("%.0f s", d.Seconds())
	case d < 2*time.Hour:
		return fmt.Sprintf("%.0f min", d.Minutes())
	case d < 48*time.Hour:
		return fmt.Sprintf("%.0f h", d.Hours())
	}
	return fmt.Sprintf("%.0f days", d.Hours()/24)
}

// chart draws one value of each sample. A sample without that value leaves a gap.
func (v *hourSeen) chart(name string, in unit, value func(*sample) float64) chart {
	var values [hourSamples]float64
	most, last := 0.0, -1.0
	for i := range v.samples {
		values[i] = -1
		if s := &v.samples[i]; s.tick != 0 {
			values[i] = value(s)
			most, last = max(most, values[i]), values[i]
		}
	}
	c := chart{Name: name, Now: text.Unknown, Most: in.format(most), Unit: in.name}
	if last >= 0 {
		c.Now = in.format(last)
	}
	c.Spoken = fmt.Sprintf("%s, last hour: now %s, at most %s", name, c.Now, c.Most)
	scale := float64(chartHeight-2) / max(most, 1)
	var line, area, list strings.Builder
	begun := -1 // where the current segment of the line begins
	end := func() {
		if begun >= 0 {
			fmt.Fprintf(&area, "V%dH%dZ", chartHeight, begun)
		}
		begun = -1
	}
	for i, y := range values {
		if i > 0 {
			list.WriteByte(',')
		}
		if y < 0 {
			end()
			continue
		}
		list.WriteString(strconv.FormatFloat(y, 'f', decimals(y), 64))
		at := strconv.FormatFloat(chartHeight-1-y*scale, 'f', 1, 64)
		if begun < 0 {
			begun = i
			fmt.Fprintf(&line, "M%d %s", i, at)
			fmt.Fprintf(&area, "M%d %dV%s", i, chartHeight, at)
		}
		fmt.Fprintf(&line, "L%d %s", i+1, at)
		fmt.Fprintf(&area, "L%d %s", i+1, at)
	}
	end()
	c.Line, c.Area, c.Values = line.String(), area.String(), list.String()
	return c
}

// decimals returns how many decimals a value gets.
func decimals(v float64) int {
	if v < 10 {
		return 1
	}
	return 0
}

// row is a partition on the wall, or a kind of event below it.
type row struct {
	Name   string
	Paths  []shape
	Word   string // its present state
	Class  string // the CSS class of Word
	Spoken string
}

// shape is the path of all cells of one kind in a row.
type shape struct{ Class, D, Title string }

// maxRows is the largest number of partitions on the wall.
const maxRows = 200

// wallRows returns the rows of at most maxRows partitions, sorted by name. If there are more, it chooses the worst of the hour.
func (v *hourSeen) wallRows() (rows []row, hidden int) {
	partitions := make([]record.Partition, 0, len(v.walls))
	for p := range v.walls {
		partitions = append(partitions, p)
	}
	slices.SortFunc(partitions, record.Partition.Compare)
	if hidden = len(partitions) - maxRows; hidden > 0 {
		slices.SortStableFunc(partitions, func(a, b record.Partition) int { return v.failure(b) - v.failure(a) })
		partitions = partitions[:maxRows]
		slices.SortFunc(partitions, record.Partition.Compare)
	}
	for _, p := range partitions {
		rows = append(rows, wallRow(p, v.walls[p]))
	}
	return rows, max(0, hidden)
}

// failure measures how much of the hour a partition was not fresh.
func (v *hourSeen) failure(p record.Partition) (sum int) {
	for _, c := range v.walls[p] {
		if c > cellFresh {
			sum += int(c)
		}
	}
	return sum
}

// heights are the heights of the cells. A worse cell is taller, so that the wall can be read without colours.
var heights = [cells]int{cellFresh: 3, cellLate: 6, cellWaiting: 8, cellStale: 10, cellStopped: rowHeight}

func wallRow(p record.Partition, all [hourCells]cell) row {
	now := all[hourCells-1]
	if now == cellNone { // the interval has just begun
		now = all[hourCells-2]
	}
	r := row{Name: p.String(), Word: now.String(), Class: now.String()}
	var paths [cells]strings.Builder
	var n [cells]int
	for i := 0; i < hourCells; {
		c, begin := all[i], i
		for i < hourCells && all[i] == c {
			i++
		}
		n[c] += i - begin
		fmt.Fprintf(&paths[c], "M%d %dh%dv%dh%dz", begin, rowHeight, i-begin, -heights[c], begin-i)
	}
	var spoken []string
	for c := cells - 1; c > cellNone; c-- {
		if n[c] > 0 {
			took := age(time.Duration(n[c]*cellSamples) * sampleInterval)
			r.Paths = append(r.Paths, shape{Class: c.String(), D: paths[c].String(), Title: c.String() + " for " + took + " of the hour"})
			spoken = append(spoken, c.String()+" for "+took)
		}
	}
	r.Spoken = r.Name + ", now " + r.Word + ": " + strings.Join(spoken, ", ") + " of the last hour"
	return r
}

// eventRows returns the events of the hour, with a row for each kind that occurred.
func (v *hourSeen) eventRows() (rows []row) {
	add := func(name, class string, happened func(*sample) string) {
		r := row{Name: name, Class: class}
		n := 0
		for i := 0; i < hourSamples; {
			what := ""
			if v.samples[i].tick != 0 {
				what = happened(&v.samples[i])
			}
			begin := i
			for i++; what != "" && i < hourSamples && v.samples[i].tick != 0 && happened(&v.samples[i]) == what; i++ {
			}
			if what != "" {
				n++
				wide := max(2, i-begin) // a single sample would hardly be visible
				at := min(begin, hourSamples-wide)
				r.Paths = append(r.Paths, shape{
					Class: class, D: fmt.Sprintf("M%d 0h%dv%dh%dz", at, wide, rowHeight, -wide),
					Title: v.time(begin).Format("15:04:05") + " " + what,
				})
			}
		}
		if n > 0 {
			r.Word = words.Count(n, "time")
			r.Spoken = fmt.Sprintf("%s: %s within the last hour", name, r.Word)
			rows = append(rows, r)
		}
	}
	add("rebalances", "event", func(s *sample) string {
		if s.generation == 0 {
			return ""
		}
		return fmt.Sprintf("generation %d began", s.generation)
	})
	add("claims", "event", func(s *sample) string {
		if s.claims == 0 {
			return ""
		}
		return words.Count(s.claims, "partition") + " claimed"
	})
	add("dead letters", "late", func(s *sample) string {
		if s.deadLetters == 0 {
			return ""
		}
		return words.Count(int(s.deadLetters), "dead letter")
	})
	for of := range pipeline.Dependencies {
		add(of.Name()+" failed", "stopped", func(s *sample) string {
			if !s.failing[of] {
				return ""
			}
			return of.Name() + " failed"
		})
	}
	return rows
}
