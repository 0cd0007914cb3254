package plot

import "time"

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
