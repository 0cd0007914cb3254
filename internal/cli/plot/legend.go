package plot

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"unicode/utf8"

	"waterwheel/internal/words"
)

// legend tells of each series how it is drawn, and what its values are: a picture is read to a dot, these are exact.
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

// short writes a value with six digits at most.
func short(v float64) string {
	if a := math.Abs(v); a >= 1e6 && a < 1e15 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 6, 64)
}
