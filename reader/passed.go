package reader

import "waterwheel/internal/timeseries"

// passedWindow is how many offsets one set takes.
const passedWindow = 1 << 32

// passed are positions of a partition that have passed by, so that they are not shown again. It forgets them some time after the
// mark has passed them.
type passed struct {
	older, newer *timeseries.PositionSet // Nil means empty.
}

// add reports whether a position passes by for the first time.
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

// forget forgets what lies at a mark or before, or some of it: nobody asks for that.
func (p *passed) forget(mark int64) {
	if p.older != nil {
		if last, ok := p.older.Max(); ok && last > mark {
			return
		}
	}
	p.older, p.newer = p.newer, nil
}
