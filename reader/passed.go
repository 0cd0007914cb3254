package reader

import "waterwheel/internal/timeseries"

// passedWindow is the number of offsets that one set covers.
const passedWindow = 1 << 32

// passed is the set of positions of a partition that were already shown. It forgets them some time after the mark has passed
// them.
type passed struct {
	older, newer *timeseries.PositionSet // Nil means empty.
}

// add adds a position, and reports whether it is new.
func (p *passed) add(at timeseries.Position) bool {
	if p.has(p.older, at) || p.has(p.newer, at) {
		return false
	}
	if p.newer == nil {
		start := max(at.Offset-passedWindow/2, 0)
		p.newer = timeseries.NewPositionSet(start, start+passedWindow)
	}
	p.newer.Add(at)
	return true
}

func (*passed) has(set *timeseries.PositionSet, at timeseries.Position) bool {
	return set != nil && set.Contains(at)
}

// forget drops positions up to a mark, or some of them. Callers never ask for these again.
func (p *passed) forget(mark int64) {
	if p.older != nil {
		if last, ok := p.older.Max(); ok && last > mark {
			return
		}
	}
	p.older, p.newer = p.newer, nil
}
