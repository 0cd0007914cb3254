package reader

import (
	"errors"
	"fmt"
	"math"
	"sort"
	"strconv"
	"strings"
	"time"

	"waterwheel/internal/words"
)

// Step is the length of the windows of Totals. Exactly one of its fields is set.
type Step struct {
	// Duration divides a day. Windows are counted from each midnight. If the clock changes, the next midnight cuts off the last
	// window of the day.
	Duration time.Duration
	// Days is a number of calendar days. Windows of several days are counted from 1 January 1970.
	Days int
	// Weeks is a number of weeks that begin on Mondays. Windows of several weeks are counted from 5 January 1970.
	Weeks int
	// Months is a number of calendar months. Windows are counted from January 1970, so that quarters and years begin in January.
	Months int
}

const (
	day = 24 * time.Hour
	// firstMonday is the first Monday since 1970, as a number of days.
	firstMonday = 4
	// mostDays bounds a step to about 270 years, so that no arithmetic overflows.
	mostDays = 100_000
	// latestTime bounds the times of windows in both directions, in milliseconds since 1970. It is about 290,000 years. All times
	// beyond are in one window.
	latestTime = math.MaxInt64 / 1000
)

// ParseStep reads a step such as 15m, 1h, 1d, 1w, 1mo or 1y. The text of its error continues a sentence that begins with the name
// of a flag.
func ParseStep(text string) (s Step, err error) {
	digits := strings.TrimLeft(text, "0123456789")
	if n, bad := strconv.Atoi(text[:len(text)-len(digits)]); bad == nil && n > 0 && n <= 10*mostDays {
		switch digits {
		case "d":
			s.Days = n
		case "w":
			s.Weeks = n
		case "mo":
			s.Months = n
		case "y":
			s.Months = 12 * n
		}
	}
	if s == (Step{}) {
		d, ok := words.ParseSpan(text)
		if !ok {
			return s, fmt.Errorf("is %q, which is not a length of time: write it as 15m, 1h, 1d, 1w, 1mo or 1y", text)
		}
		if s.Duration = d; d > 0 && d%day == 0 {
			s = Step{Days: int(d / day)}
		}
	}
	if err := s.Check(); err != nil {
		return s, fmt.Errorf("is %q: %w", text, err)
	}
	return s, nil
}

// Check explains why windows of this length are impossible. Nil means that they are possible.
func (s Step) Check() error {
	set := 0
	for _, n := range []int64{int64(s.Duration), int64(s.Days), int64(s.Weeks), int64(s.Months)} {
		if n < 0 {
			return errors.New("windows need a length above zero")
		}
		if n > 0 {
			set++
		}
	}
	switch {
	case set != 1:
		return errors.New("windows need one length: a duration, or a number of days, weeks or months")
	case s.Duration%time.Millisecond != 0:
		return errors.New("windows need a length in whole milliseconds")
	case s.Duration > 0 && day%s.Duration != 0:
		return errors.New("windows shorter than a day must divide a day evenly, such as 1m, 15m, 1h, 6h or 12h; longer windows must be whole days, weeks (1w), months (1mo) or years (1y)")
	case max(s.Days, s.Weeks, s.Months) > mostDays:
		return fmt.Errorf("windows have at most %d days, weeks or months", mostDays)
	}
	return nil
}

// String returns the step in the form that ParseStep reads.
func (s Step) String() string {
	switch {
	case s.Months > 0 && s.Months%12 == 0:
		return fmt.Sprintf("%dy", s.Months/12)
	case s.Months > 0:
		return fmt.Sprintf("%dmo", s.Months)
	case s.Weeks > 0:
		return fmt.Sprintf("%dw", s.Weeks)
	case s.Days > 0:
		return fmt.Sprintf("%dd", s.Days)
	}
	text := s.Duration.String()
	for _, zero := range []string{"m0s", "h0m"} { // 15m0s is written as 15m
		if strings.HasSuffix(text, zero) {
			text = text[:len(text)-2]
		}
	}
	return text
}

// windows divides time into windows of one step in one zone.
type windows struct {
	step Step
	zone *time.Location
}

// of returns the beginning and the exclusive end of the window that holds a time. All are in milliseconds since 1970.
func (w windows) of(ms int64) (from, to int64) {
	switch {
	case ms < -latestTime:
		return math.MinInt64, -latestTime
	case ms >= latestTime:
		return latestTime, math.MaxInt64
	}
	n := w.dayOf(ms)
	switch {
	case w.step.Days > 0:
		first := floorDiv(n, int64(w.step.Days)) * int64(w.step.Days)
		return w.dayStart(first), w.dayStart(first + int64(w.step.Days))
	case w.step.Weeks > 0:
		length := 7 * int64(w.step.Weeks)
		first := floorDiv(n-firstMonday, length)*length + firstMonday
		return w.dayStart(first), w.dayStart(first + length)
	case w.step.Months > 0:
		date := time.Unix(n*86400, 0).UTC()
		month := floorDiv(int64(date.Year()-1970)*12+int64(date.Month()-1), int64(w.step.Months)) * int64(w.step.Months)
		return w.dayStart(firstOf(month)), w.dayStart(firstOf(month + int64(w.step.Months)))
	}
	begin, end := w.dayStart(n), w.dayStart(n+1)
	from = begin + floorDiv(ms-begin, w.step.Duration.Milliseconds())*w.step.Duration.Milliseconds()
	return from, min(from+w.step.Duration.Milliseconds(), end)
}

// firstOf returns the first day of a month. The month is counted from January 1970, and the day from 1 January 1970.
func firstOf(month int64) int64 {
	return time.Date(1970, time.Month(1+month), 1, 0, 0, 0, 0, time.UTC).Unix() / 86400
}

// dayOf returns the day that holds a time, counted from 1 January 1970 in the zone. If the clock goes back over midnight, the
// days still meet at a single moment.
func (w windows) dayOf(ms int64) int64 {
	n := w.dateOf(ms)
	switch {
	case ms < w.dayStart(n):
		return n - 1
	case ms >= w.dayStart(n+1):
		return n + 1
	}
	return n
}

// dateOf returns the date that a clock of the zone shows at a time, as a number of days since 1970.
func (w windows) dateOf(ms int64) int64 {
	_, offset := time.UnixMilli(ms).In(w.zone).Zone()
	return floorDiv(saturate(ms, int64(offset)*1000), day.Milliseconds())
}

// dayStart returns the beginning of a day in milliseconds since 1970. A day without a midnight begins when the clock changes.
func (w windows) dayStart(n int64) int64 {
	at := n * day.Milliseconds()
	if w.zone == time.UTC {
		return at
	}
	_, offset := time.UnixMilli(at).In(w.zone).Zone()
	if guess := at - int64(offset)*1000; w.dateOf(guess) == n && w.dateOf(guess-1) == n-1 {
		return guess
	}
	const around = 36 * 60 * 60 // in seconds; every zone is closer to UTC
	first := at/1000 - around
	return (first + int64(sort.Search(2*around, func(i int) bool { return w.dateOf((first+int64(i))*1000) >= n }))) * 1000
}

// aligned returns the latest span of time within [from, to) in which all windows begin and end at multiples of unit. Times are in
// milliseconds since 1970. The span is empty if there is none. A zone whose offset has half hours, now or in the past, has days
// that do not consist of whole UTC hours.
func (w windows) aligned(unit, from, to int64) (begin, end int64) {
	if w.zone == time.UTC || from >= to {
		return from, to
	}
	end = to
	open := false // whether the span is known to have a beginning
	for at := to - 1; ; {
		era := time.UnixMilli(at).In(w.zone)
		_, offset := era.Zone()
		start, _ := era.ZoneBounds()
		switch fits := int64(offset)*1000%unit == 0; {
		case fits:
			open = true
		case open: // the first midnight after this era
			return w.whole(at+1, end, from, to)
		default:
			end = start.UnixMilli()
		}
		if start.IsZero() || start.UnixMilli() <= from {
			if !open {
				return from, from
			}
			return w.whole(from, end, from, to)
		}
		at = start.UnixMilli() - 1
	}
}

// whole shrinks a span to windows that lie entirely within it. It does not shrink a side that equals from or to.
func (w windows) whole(begin, end, from, to int64) (int64, int64) {
	if begin > from {
		if start, next := w.bounds(begin); start < begin {
			begin = next
		}
	}
	if end < to {
		end, _ = w.bounds(end)
	}
	return begin, max(begin, end)
}

// bounds returns the bounds of the window at a time. If the step is shorter than a day, it returns the bounds of the whole day.
func (w windows) bounds(ms int64) (from, to int64) {
	if w.step.Duration > 0 {
		w.step = Step{Days: 1}
	}
	return w.of(ms)
}

// floorDiv divides and rounds down.
func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}
