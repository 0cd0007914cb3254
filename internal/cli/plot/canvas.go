package plot

import "strings"

// canvas is a grid of characters, each of which has one or several dots.
type canvas struct {
	columns, rows int
	across, down  int // dots per character
	dots          []uint8
	owner         []int8 // the series that last drew in the character. -1 means none.
}

// newCanvas returns an empty canvas. If fine is set, each character has two by four dots. Otherwise it has one.
func newCanvas(columns, rows int, fine bool) *canvas {
	c := &canvas{columns: columns, rows: rows, across: 1, down: 1, dots: make([]uint8, columns*rows), owner: make([]int8, columns*rows)}
	if fine {
		c.across, c.down = 2, 4
	}
	for i := range c.owner {
		c.owner[i] = -1
	}
	return c
}

func (c *canvas) width() int  { return c.columns * c.across }
func (c *canvas) height() int { return c.rows * c.down }

// braille has the bits of the dots of a character, by row and column.
var braille = [4][2]uint8{{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}}

// dot draws a dot of a series.
func (c *canvas) dot(x, y int, series int) {
	i := y/c.down*c.columns + x/c.across
	c.dots[i] |= braille[y%c.down][x%c.across]
	c.owner[i] = int8(series)
}

// line draws a line from dot to dot.
func (c *canvas) line(x0, y0, x1, y1 int, series int) {
	dx, dy := abs(x1-x0), -abs(y1-y0)
	sx, sy := sign(x1-x0), sign(y1-y0)
	for e := dx + dy; ; {
		c.dot(x0, y0, series)
		if x0 == x1 && y0 == y1 {
			return
		}
		twice := 2 * e
		if twice >= dy {
			e, x0 = e+dy, x0+sx
		}
		if twice <= dx {
			e, y0 = e+dx, y0+sy
		}
	}
}

// row returns the text of a row of characters.
func (c *canvas) row(y int, p pen) string {
	var b strings.Builder
	last := -1
	for x := range c.columns {
		i := y*c.columns + x
		if owner := int(c.owner[i]); owner != last {
			b.WriteString(p.change(last, owner))
			last = owner
		}
		switch {
		case c.owner[i] < 0:
			b.WriteByte(' ')
		case c.across == 1:
			b.WriteString(p.sign(int(c.owner[i])))
		default:
			b.WriteRune(0x2800 + rune(c.dots[i]))
		}
	}
	b.WriteString(p.change(last, -1))
	return strings.TrimRight(b.String(), " ")
}

func abs(n int) int { return max(n, -n) }

func sign(n int) int {
	switch {
	case n > 0:
		return 1
	case n < 0:
		return -1
	}
	return 0
}
