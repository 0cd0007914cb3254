package curves

import (
	"fmt"
	"path/filepath"
	"strings"

	"waterwheel/e2e/bench"
	"waterwheel/e2e/bench/figure"
)

// Prefix is the prefix of the files' names.
const Prefix = "cost-"

// Draw draws a curve to a file in a folder, as two panels side by side, and returns the file's name.
func (c Curve) Draw(dir string, measured []Measured) (string, error) {
	panel := func(title string, y figure.Axis, value func(Point) float64) figure.Panel {
		p := figure.Panel{Title: title, X: c.Axis, Y: y}
		for _, row := range measured {
			line := figure.Line{Name: row.Line}
			for _, at := range row.Points {
				line.Points = append(line.Points, figure.Point{X: at.X, Y: value(at)})
			}
			p.Lines = append(p.Lines, line)
		}
		return p
	}
	cpu := figure.Axis{Name: "µs of own CPU for a measurement", Log: c.wide(measured)}
	rate := figure.Axis{Name: "measurements a second", Log: cpu.Log}
	name := Prefix + c.Name + ".svg"
	return name, figure.Write(filepath.Join(dir, name),
		panel("What a measurement costs", cpu, func(p Point) float64 { return p.CPU }),
		panel("How many a second", rate, func(p Point) float64 { return p.Rate }))
}

// wide reports whether costs differ so much that a logarithmic axis shows them better.
func (c Curve) wide(measured []Measured) bool {
	least, most := 0.0, 0.0
	for i, row := range measured {
		for j, p := range row.Points {
			if i == 0 && j == 0 || p.CPU < least {
				least = p.CPU
			}
			most = max(most, p.CPU)
		}
	}
	return least > 0 && most > 8*least
}

// Sentence describes how the cost grows.
func (c Curve) Sentence(measured []Measured) string {
	var parts []string
	for _, row := range measured {
		if len(row.Points) == 0 {
			continue
		}
		first, last := row.Points[0], row.Points[len(row.Points)-1]
		name := ""
		if row.Line != "" {
			name = row.Line + ", "
		}
		part := fmt.Sprintf("%sa measurement takes %s µs of own processor time at %s %s and %s µs at %s",
			name, figure.Number(first.CPU), figure.Number(first.X), c.Of, figure.Number(last.CPU), figure.Number(last.X))
		if first.CPU > 0 {
			part += ", " + figure.Number(last.CPU/first.CPU) + " times as much"
		}
		parts = append(parts, part)
	}
	text := strings.Join(parts, "; ")
	if text == "" {
		return "Nothing was measured."
	}
	from := "the proxy answers the writes"
	if c.Peer == bench.Waterwheel {
		from = "the buckets are stored"
	}
	return strings.ToUpper(text[:1]) + text[1:] + " (" + from + ")."
}
