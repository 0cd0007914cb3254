package bucketer

import "slices"

// handOut returns the look-ups of up to n series, which the caller must answer. After each follow the look-ups expected for the
// readings behind the first.
func (m *model) handOut(n int) []Lookup {
	first := m.asking[:min(n, len(m.asking))]
	m.asking = m.asking[len(first):]
	var out []Lookup
	for _, key := range first {
		s := m.series[key]
		s.handed = true
		out = append(out, s.lookup)
		out = append(out, m.expected(s, n/len(first)-1)...)
	}
	return out
}

// expected returns up to n look-ups for the readings that wait behind the first. It assumes that each look-up without a bucket for
// its window opens one. It looks no further.
func (m *model) expected(s *modelSeries, n int) []Lookup {
	var out []Lookup
	var opened []int64 // minimum times, of which the last is that of the open bucket
	isIn := func(minTime, time int64) bool {
		return time >= minTime && time-minTime < m.options.Collection.Span()
	}
	for i, r := range s.awaiting {
		if len(out) == n || i > n*aheadStride {
			break
		}
		known := slices.ContainsFunc(opened, func(minTime int64) bool { return isIn(minTime, r.time) })
		if i > 0 && (known || len(s.open) > 0 && isIn(s.open[0].minTime, r.time) || m.rolled(r, false) != nil) {
			continue
		}
		l := Lookup{Series: r.series, Time: r.time, Ahead: true}
		asks, minTime := i > 0 && r.time < opened[len(opened)-1], m.options.Collection.Round(r.time)
		if b := m.archived(s, r); b != nil {
			l.ID, asks, minTime = b.id, i > 0, b.minTime
		}
		if opened = append(opened, minTime); asks {
			out = append(out, l)
		}
	}
	return out
}

// foreseen reports whether a look-up was handed out together with the answered look-up. It drops earlier ones.
func (m *model) foreseen(l Lookup) bool {
	at := slices.IndexFunc(m.ahead, func(a Lookup) bool {
		return a.Series == l.Series && a.Time == l.Time && a.ID == l.ID
	})
	m.ahead = m.ahead[at+1:]
	return at >= 0
}
