package live

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"waterwheel/e2e/bench/figure"
)

// Table returns the results as a Markdown table.
func Table(results []Result) string {
	var b strings.Builder
	b.WriteString("| series | Hz each | stored as | stored/s | compacted/s | own CPU each | server CPU each | writes/s | measurements a write | a bucket | bytes each: data / disk / indexes | freshness, s: p50 / p90 / p99 / max |\n")
	b.WriteString("|---|---|---|---|---|---|---|---|---|---|---|---|\n")
	for _, r := range results {
		own, server, bytes, behind := "–", "–", "–", ""
		if r.Stored > 0 {
			own = figure.Number(r.CPU) + " µs"
		}
		if r.Stored > 0 && r.ServerCPU != nil {
			server = figure.Number(*r.ServerCPU) + " µs"
		}
		if r.Bytes > 0 {
			bytes = fmt.Sprintf("%.0f / %.0f / %.1f", r.Bytes, r.Disk, r.Indexes)
		}
		if r.Behind() {
			behind = " **behind**"
		}
		fmt.Fprintf(&b, "| %s | %g | %s | %s%s | %s | %s | %s | %s | %s | %s | %s | %s |\n", figure.Number(float64(r.Series)), r.Rate, r.Way,
			figure.Number(r.Stored), behind, known(r.Compacted), own, server, figure.Number(r.Writes), figure.Number(r.PerWrite),
			known(r.Density), bytes, r.Freshness)
	}
	for _, r := range results {
		if r.Trouble != "" {
			fmt.Fprintf(&b, "\n%s, %s: %s.\n", r.Case, r.Way, r.Trouble)
		}
	}
	return b.String()
}

// known formats a number, or a dash for 0.
func known(n float64) string {
	if n == 0 {
		return "–"
	}
	return figure.Number(n)
}

// drawing is one figure over all results, with a line for each number of series.
type drawing struct {
	title, unit string
	log         bool
	of          func(Result) float64 // Zero means unknown.
}

var drawings = []struct {
	name   string
	panels []drawing
}{
	{"live-density", []drawing{
		{"How dense", "measurements a bucket, at the end", true, func(r Result) float64 { return r.Density }},
		{"How large", "bytes of BSON for a measurement", true, func(r Result) float64 { return r.Bytes }},
	}},
	{"live-cost", []drawing{
		{"The consumer", "µs of own CPU for a measurement", true, func(r Result) float64 { return r.CPU }},
		{"MongoDB", "µs of its CPU for a measurement", true, func(r Result) float64 {
			if r.ServerCPU == nil {
				return 0
			}
			return *r.ServerCPU
		}},
	}},
	{"live-freshness", []drawing{
		{"Half are visible within", "seconds", false, func(r Result) float64 { return r.Freshness.P50.Seconds() }},
		{"99 % are visible within", "seconds", false, func(r Result) float64 { return r.Freshness.P99.Seconds() }},
	}},
}

// Draw draws all figures of each way to a folder, and returns the names of the files. It leaves out a panel without points.
func Draw(dir string, results []Result) ([]string, error) {
	var names []string
	for _, way := range Ways {
		of := slices.DeleteFunc(slices.Clone(results), func(r Result) bool { return r.Way != way })
		for _, d := range drawings {
			var panels []figure.Panel
			for _, panel := range d.panels {
				panel.title += ", stored as " + string(way)
				if p := panel.panel(of); len(p.Lines) > 0 {
					panels = append(panels, p)
				}
			}
			if len(panels) == 0 {
				continue
			}
			name := d.name + "-" + string(way) + ".svg"
			if err := figure.Write(filepath.Join(dir, name), panels...); err != nil {
				return nil, err
			}
			names = append(names, name)
		}
	}
	return names, nil
}

func (d drawing) panel(results []Result) figure.Panel {
	p := figure.Panel{
		Title: d.title, X: figure.Axis{Name: "measurements a second of each series (Hz)", Log: true}, Y: figure.Axis{Name: d.unit, Log: d.log},
	}
	for _, series := range Series {
		line := figure.Line{Name: figure.Number(float64(series)) + " series"}
		for _, r := range results {
			if y := d.of(r); r.Series == series && y > 0 {
				line.Points = append(line.Points, figure.Point{X: r.Rate, Y: y})
			}
		}
		if len(line.Points) > 0 {
			p.Lines = append(p.Lines, line)
		}
	}
	return p
}
