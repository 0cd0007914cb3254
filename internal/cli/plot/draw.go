package plot

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"waterwheel/internal/words"
)

// These are the smallest and the largest size of a picture, in characters.
const (
	leastWidth, leastHeight = 30, 4
	mostWidth, mostHeight   = 400, 200
)

// pen defines how series and axes are drawn.
type pen struct{ color, ascii bool }

// colors are the numbers of the terminal's colours, one for each series.
var colors = [MaxSeries]int{36, 33, 35, 32, 31, 34, 96, 95}

// signs distinguish series without colours.
const signs = "*+ox#@%="

// change returns the escape sequence that switches from one series to another. -1 means no series.
func (p pen) change(from, to int) string {
	switch {
	case !p.color || from == to:
		return ""
	case to < 0:
		return "\x1b[0m"
	}
	return fmt.Sprintf("\x1b[%dm", colors[to])
}

func (p pen) sign(series int) string { return signs[series : series+1] }

// choose returns text, or ascii if only ASCII is allowed.
func (p pen) choose(text, ascii string) string {
	if p.ascii {
		return ascii
	}
	return text
}

// Draw draws the values. There must be some, see Empty.
func (p *Plot) Draw(w io.Writer, o Options) {
	at := pen{color: o.Color, ascii: o.ASCII}
	from, to, low, high := p.extent()
	if !o.From.IsZero() {
		from = o.From.UnixMilli()
	}
	if !o.To.IsZero() {
		to = o.To.UnixMilli()
	}
	if from >= to { // a single moment
		from, to = from-500, from+500
	}
	rows := min(mostHeight, max(leastHeight, o.Height))
	values := newScale(low, high, max(3, rows/3))
	margin := values.labelWidth()
	columns := min(mostWidth, max(leastWidth, o.Width)-margin-len(" |"))
	c := newCanvas(columns, rows, !o.ASCII && (o.Color || len(p.series) == 1))
	labels := values.labels(c)
	for i := len(p.series) - 1; i >= 0; i-- { // the first series is on top
		p.series[i].draw(c, values, from, to, i)
	}
	begin, end := moment(from, o.Location), moment(to, o.Location)
	fmt.Fprintf(w, "%s, %s to %s\n", p.Title, begin.Format("2006-01-02 15:04:05"), end.Format("2006-01-02 15:04:05 MST"))
	for y := range rows {
		axis := at.choose("│", "|")
		if labels[y] != "" {
			axis = at.choose("┤", "+")
		}
		fmt.Fprintf(w, "%*s %s%s\n", margin, labels[y], axis, c.row(y, at))
	}
	drawTimes(w, at, marks(begin, end, columns), margin+1, columns)
	p.legend(w, at, c)
}

func moment(milliseconds int64, where *time.Location) time.Time {
	if where == nil {
		where = time.UTC
	}
	return time.UnixMilli(milliseconds).In(where)
}

// drawTimes draws the time axis.
func drawTimes(w io.Writer, at pen, marks []mark, margin, columns int) {
	line := strings.Split(strings.Repeat(at.choose("─", "-"), columns), "")
	var labels strings.Builder
	used := 0
	for _, m := range marks {
		line[m.column] = at.choose("┬", "+")
		begin := max(0, m.column-utf8.RuneCountInString(m.label)/2+1)
		if begin < used || begin+len(m.label) > columns+1 {
			continue
		}
		labels.WriteString(strings.Repeat(" ", begin-labels.Len()))
		labels.WriteString(m.label)
		used = labels.Len() + 1
	}
	fmt.Fprintf(w, "%s%s%s\n", strings.Repeat(" ", margin), at.choose("└", "+"), strings.Join(line, ""))
	fmt.Fprintf(w, "%s%s\n", strings.Repeat(" ", margin), labels.String())
}

// draw draws a series. Each column has a line from its smallest to its largest value, and columns are connected by lines unless
// there is a gap.
func (s *series) draw(c *canvas, values scale, from, to int64, number int) {
	columns := make([]span, c.width())
	for _, one := range s.bins.spans {
		if one.count > 0 {
			columns[place(one.from, from, to, c.width())].merge(one)
		}
	}
	y := func(v float64) int { return values.row(v, c.height()) }
	gap, last := s.intervals.gap(), -1
	for x, one := range columns {
		if one.count == 0 {
			continue
		}
		c.line(x, y(one.low), x, y(one.high), number)
		if last >= 0 && one.from-columns[last].to <= gap {
			c.line(last, y(columns[last].last), x, y(one.first), number)
		}
		last = x
	}
}

// legend prints how each series is drawn, and its statistics. A picture is accurate only to a dot, but these are exact.
func (p *Plot) legend(w io.Writer, at pen, c *canvas) {
	width := 0
	for _, s := range p.series {
		width = max(width, utf8.RuneCountInString(s.name))
	}
	for i, s := range p.series {
		sample := at.choose("━━", "--")
		if c.across == 1 {
			sample = at.sign(i)
		}
		whole := s.whole()
		fmt.Fprintf(w, "%s%s%s %s%*s  min %s  mean %s  max %s  last %s  of %d\n", at.change(-1, i), sample, at.change(i, -1),
			s.name, width-utf8.RuneCountInString(s.name), "", short(whole.low), short(s.sum/float64(s.count)), short(whole.high), short(whole.last), s.count)
	}
	if p.others > 0 {
		fmt.Fprintf(w, "Not drawn: %s of further series. Filter, so that at most %d series are left.\n", words.Count(p.others, "value"), MaxSeries)
	}
	if p.notNumbers > 0 {
		fmt.Fprintf(w, "Not drawn: %s.\n", words.Form(p.notNumbers, "1 non-numeric value", fmt.Sprint(p.notNumbers, " non-numeric values")))
	}
}

// short formats a value with at most six digits.
func short(v float64) string {
	if a := math.Abs(v); a >= 1e6 && a < 1e15 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 6, 64)
}

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
	sx, sy := cmp.Compare(x1, x0), cmp.Compare(y1, y0)
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

// mostFloat bounds the values of an axis. With larger ones calculations would overflow.
const mostFloat = 1e300

// scale is an axis of values, from the smallest to the largest, with marks at round values.
type scale struct {
	low, high float64
	first     float64 // the first mark, as a number of steps
	step      float64
	marks     int
	decimals  int // -1 means that the values are too large or too small for decimals
}

// newScale returns an axis for values from low to high, with at most most marks.
func newScale(low, high float64, most int) scale {
	low, high = min(max(low, -mostFloat), mostFloat), min(max(high, -mostFloat), mostFloat)
	const least = 1e-12 // relative to the values' size; smaller differences count as none
	if size := max(math.Abs(low), math.Abs(high)); high-low <= size*least || size < 1/mostFloat {
		margin := size / 10
		if size < 1/mostFloat {
			margin = 1
		}
		low, high = low-margin, high+margin
	}
	for rough := (high - low) / float64(most); ; rough *= 1.2 {
		step, decimals := roundStep(rough)
		first, last := math.Ceil(low/step), math.Floor(high/step)
		if last-first < float64(most) {
			return scale{low: low, high: high, first: first, step: step, marks: max(0, int(last-first)+1), decimals: decimals}
		}
	}
}

// roundStep returns the smallest step that is not below rough, and its decimals. Steps are 1, 2, 2.5 and 5 times a power of ten.
func roundStep(rough float64) (step float64, decimals int) {
	exponent := math.Floor(math.Log10(rough))
	unit := math.Pow(10, exponent)
	for _, c := range []struct {
		factor   float64
		decimals int
	}{{1, 0}, {2, 0}, {2.5, 1}, {5, 0}, {10, -1}} {
		if step = c.factor * unit; step >= rough*(1-1e-9) {
			decimals = max(0, c.decimals-int(exponent))
			break
		}
	}
	if exponent > 8 || exponent < -6 {
		decimals = -1
	}
	return step, decimals
}

// at returns the value of a mark.
func (s scale) at(i int) float64 { return (s.first + float64(i)) * s.step }

// label formats the value of a mark.
func (s scale) label(i int) string {
	v := s.at(i)
	if s.decimals < 0 {
		return strconv.FormatFloat(v, 'g', 6, 64)
	}
	return strconv.FormatFloat(v+0, 'f', s.decimals, 64)
}

// labelWidth returns the length of the longest label.
func (s scale) labelWidth() (longest int) {
	for i := range s.marks {
		longest = max(longest, len(s.label(i)))
	}
	return longest
}

// row returns the row of a value. The top row is 0.
func (s scale) row(v float64, rows int) int {
	part := (s.high - v) / (s.high - s.low)
	return min(rows-1, max(0, int(math.Round(part*float64(rows-1)))))
}

// labels returns the labels of the marks by row of characters. Each is in the row in which its value is drawn.
func (s scale) labels(c *canvas) []string {
	labels := make([]string, c.rows)
	for i := range s.marks {
		labels[s.row(s.at(i), c.height())/c.down] = s.label(i)
	}
	return labels
}

// interval is a step between two times of an axis, with the format of the times. The step is a length of time, or a number of
// months.
type interval struct {
	length time.Duration
	months int
	layout string
}

// day has 24 hours.
const day = 24 * time.Hour

// These are the formats of times, from fine to coarse.
const (
	withMilliseconds = "15:04:05.000"
	withSeconds      = "15:04:05"
	withMinutes      = "15:04"
	withDays         = "Jan 2"
	withMonths       = "2006-01"
	withYears        = "2006"
)

// roundIntervals returns the steps that an axis may have.
func roundIntervals() (all []interval) {
	add := func(layout string, unit time.Duration, counts ...int) {
		for _, n := range counts {
			all = append(all, interval{length: time.Duration(n) * unit, layout: layout})
		}
	}
	add(withMilliseconds, time.Millisecond, 1, 2, 5, 10, 20, 50, 100, 200, 500)
	add(withSeconds, time.Second, 1, 2, 5, 10, 15, 30)
	add(withMinutes, time.Minute, 1, 2, 5, 10, 15, 30)
	add(withMinutes, time.Hour, 1, 2, 3, 6, 12)
	add(withDays, day, 1, 2, 7, 14)
	for _, n := range []int{1, 3, 6} {
		all = append(all, interval{months: n, layout: withMonths})
	}
	for _, years := range []int{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000} {
		all = append(all, interval{months: 12 * years, layout: withYears})
	}
	return all
}

// before returns the last round time that is not after t.
func (v interval) before(t time.Time) time.Time {
	year, month, date := t.Date()
	switch {
	case v.months >= 12:
		years := v.months / 12
		return time.Date(year-year%years, 1, 1, 0, 0, 0, 0, t.Location())
	case v.months > 0:
		return time.Date(year, month-(month-1)%time.Month(v.months), 1, 0, 0, 0, 0, t.Location())
	}
	midnight := time.Date(year, month, date, 0, 0, 0, 0, t.Location())
	if v.length < day {
		return midnight.Add(t.Sub(midnight).Truncate(v.length))
	}
	number := time.Date(year, month, date, 0, 0, 0, 0, time.UTC).Unix() / int64(day/time.Second)
	days := int64(v.length / day)
	return midnight.AddDate(0, 0, -int(((number%days)+days)%days))
}

// after returns the next round time.
func (v interval) after(t time.Time) time.Time {
	switch {
	case v.months > 0:
		return t.AddDate(0, v.months, 0)
	case v.length >= day:
		return t.AddDate(0, 0, int(v.length/day))
	}
	return t.Add(v.length)
}

// mark is a time on an axis.
type mark struct {
	column int
	label  string
}

// marks returns round times from one time to another. There are only as many as have room for their labels in the columns.
func marks(from, to time.Time, columns int) (found []mark) {
	const between = 3
	whole := to.UnixMilli() - from.UnixMilli()
	for _, step := range roundIntervals() {
		room := columns / (len(step.layout) + between)
		if step.months == 0 && whole/max(1, step.length.Milliseconds()) > int64(room) || step.months > 0 && whole/int64(28*24*3600_000*step.months) > int64(room)+1 {
			continue
		}
		found = found[:0]
		for t := step.before(from); !t.After(to); t = step.after(t) {
			if !t.Before(from) {
				found = append(found, mark{place(t.UnixMilli(), from.UnixMilli(), to.UnixMilli(), columns), t.Format(step.layout)})
			}
		}
		return found
	}
	return nil
}

// place returns the column of a time.
func place(at, from, to int64, columns int) int {
	part := float64(at-from) / float64(max(1, to-from))
	return min(columns-1, max(0, int(part*float64(columns))))
}
