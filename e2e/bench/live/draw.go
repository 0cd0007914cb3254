package live

import (
	"fmt"
	"path/filepath"
	"strings"

	"waterwheel/e2e/bench/figure"
)

// Table is the results for people.
func Table(results []Result) string {
	var b strings.Builder
	b.WriteString("| series | Hz each | stored/s | own CPU each | server CPU each | writes/s | measurements a write | a bucket | bytes each: data / disk / indexes | freshness, s: p50 / p90 / p99 / max |\n")
	b.WriteString("|---|---|---|---|---|---|---|---|---|---|\n")
	for _, r := range results {
		server, bytes, behind := "–", "–", ""
		if r.ServerCPU != nil {
			server = figure.Number(*r.ServerCPU) + " µs"
		}
		if r.Bytes > 0 {
			bytes = fmt.Sprintf("%.0f / %.0f / %.1f", r.Bytes, r.Disk, r.Indexes)
		}
		if r.Behind() {
			behind = " **behind**"
		}
		fmt.Fprintf(&b, "| %s | %g | %s%s | %s µs | %s | %s | %s | %s | %s | %s |\n", figure.Number(float64(r.Series)), r.Rate,
			figure.Number(r.Stored), behind, figure.Number(r.CPU), server, figure.Number(r.Writes), figure.Number(r.PerWrite),
			figure.Number(r.Density), bytes, r.Freshness)
	}
	return b.String()
}

// drawing is one figure that is drawn for all results: a line for each number of series.
type drawing struct {
	title, unit string
	log         bool
	of          func(Result) float64 // 0: not known
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

// Draw draws all figures into a folder, and returns the files' names. A panel without any figure is left out.
func Draw(dir string, results []Result) ([]string, error) {
	var names []string
	for _, d := range drawings {
		var panels []figure.Panel
		for _, of := range d.panels {
			if p := of.panel(results); len(p.Lines) > 0 {
				panels = append(panels, p)
			}
		}
		if len(panels) == 0 {
			continue
		}
		name := d.name + ".svg"
		if err := figure.Write(filepath.Join(dir, name), panels...); err != nil {
			return nil, err
		}
		names = append(names, name)
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
