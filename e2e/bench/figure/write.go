package figure

import (
	"bytes"
	"fmt"
	"image/color"
	"math"
	"os"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// These are the size of one panel and of the margin around it, in points.
const (
	panelWidth  = 400
	panelHeight = 300
	margin      = 12
	legendRoom  = 1.3 // upper end of the axis, in multiples of the largest value, if lines have names
)

// colours are the colours of lines, in turn. They also differ in brightness, for readers who cannot distinguish all colours.
var colours = []color.RGBA{
	{0x00, 0x72, 0xb2, 0xff},
	{0xd5, 0x5e, 0x00, 0xff},
	{0x00, 0x9e, 0x73, 0xff},
	{0xcc, 0x79, 0xa7, 0xff},
	{0x56, 0xb4, 0xe9, 0xff},
	{0x40, 0x40, 0x40, 0xff},
}

// Write draws panels side by side to an SVG file.
func Write(path string, panels ...Panel) error {
	svg, err := render(panels)
	if err == nil {
		err = os.WriteFile(path, svg, 0o600)
	}
	if err != nil {
		return fmt.Errorf("drawing %s: %w", path, err)
	}
	return nil
}

func render(panels []Panel) ([]byte, error) {
	canvas := vgsvg.New(vg.Length(panelWidth*len(panels)), panelHeight)
	whole := draw.New(canvas)
	whole.FillPolygon(color.White, []vg.Point{{}, {X: whole.Max.X}, whole.Max, {Y: whole.Max.Y}})
	for i, panel := range panels {
		p, err := plotOf(panel)
		if err != nil {
			return nil, err
		}
		left := vg.Length(i * panelWidth)
		p.Draw(draw.Crop(whole, left+margin, left+panelWidth-margin-whole.Max.X, margin, -margin))
	}
	var b bytes.Buffer
	if _, err := canvas.WriteTo(&b); err != nil {
		return nil, fmt.Errorf("writing SVG: %w", err)
	}
	// The layout uses the library's own font metrics. A viewer may have only a similar font.
	return bytes.ReplaceAll(b.Bytes(), []byte("font-family:Liberation Sans;"), []byte("font-family:Liberation Sans,Arial,Helvetica,sans-serif;")), nil
}

// plotOf returns the library's plot of a panel.
func plotOf(panel Panel) (*plot.Plot, error) {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = panel.Title, panel.X.Name, panel.Y.Name
	for _, style := range []*font.Font{
		&p.Title.TextStyle.Font, &p.X.Label.TextStyle.Font, &p.Y.Label.TextStyle.Font, &p.X.Tick.Label.Font, &p.Y.Tick.Label.Font,
		&p.Legend.TextStyle.Font,
	} {
		style.Variant = "Sans"
	}
	p.Title.Padding, p.Legend.Top, p.Legend.Left = vg.Points(6), true, true
	var xs, ys []float64
	for _, line := range panel.Lines {
		for _, at := range line.Points {
			xs, ys = append(xs, at.X), append(ys, at.Y)
		}
	}
	if len(xs) == 0 {
		return nil, fmt.Errorf("the panel %q has no points", panel.Title)
	}
	room := 1.08
	if len(panel.Lines) > 1 {
		room = legendRoom
	}
	if err := arrange(&p.X, panel.X, xs, false, 1); err != nil {
		return nil, err
	}
	if err := arrange(&p.Y, panel.Y, ys, true, room); err != nil {
		return nil, err
	}
	grid := plotter.NewGrid()
	grid.Vertical.Color, grid.Horizontal.Color = color.Gray{0xe0}, color.Gray{0xe0}
	p.Add(grid)
	for i, line := range panel.Lines {
		if err := add(p, panel.placed(line), colours[i%len(colours)]); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// arrange sets the scale, the ends and the numbers of an axis.
func arrange(axis *plot.Axis, wanted Axis, values []float64, fromZero bool, room float64) error {
	axis.Tick.Marker = linearTicks{}
	if wanted.Log {
		for _, v := range values {
			if v <= 0 {
				return fmt.Errorf("%g is not above zero, on the logarithmic axis %q", v, wanted.Name)
			}
		}
		axis.Tick.Marker = logTicks{}
	}
	axis.Min, axis.Max = bounds(wanted, values, fromZero, room)
	if wanted.Log {
		axis.Min, axis.Max = math.Log10(axis.Min), math.Log10(axis.Max)
	}
	return nil
}

// placed returns a line for the library, with logarithms along a logarithmic axis.
func (p Panel) placed(line Line) Line {
	placed := Line{Name: line.Name}
	for _, at := range line.Points {
		if p.X.Log {
			at.X = math.Log10(at.X)
		}
		if p.Y.Log {
			at.Y = math.Log10(at.Y)
		}
		placed.Points = append(placed.Points, at)
	}
	return placed
}

// add adds a line with a dot at each of its points.
func add(p *plot.Plot, line Line, colour color.Color) error {
	points := make(plotter.XYs, len(line.Points))
	for i, at := range line.Points {
		points[i].X, points[i].Y = at.X, at.Y
	}
	drawn, dots, err := plotter.NewLinePoints(points)
	if err != nil {
		return fmt.Errorf("drawing the line %q: %w", line.Name, err)
	}
	drawn.Color, drawn.Width = colour, vg.Points(1.6)
	dots.Color, dots.Shape, dots.Radius = colour, draw.CircleGlyph{}, vg.Points(2.4)
	p.Add(drawn, dots)
	if line.Name != "" {
		p.Legend.Add(line.Name, drawn, dots)
	}
	return nil
}
