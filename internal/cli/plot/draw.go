package plot

import (
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
