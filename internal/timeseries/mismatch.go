package timeseries

import "fmt"

// Mismatch holds the number of measurements by each account of a bucket. The accounts should agree.
type Mismatch struct { //nolint:errname // the bucket has a mismatch, which is an error only to some
	// Times is the number of values in the time column.
	Times int
	// Count is control.count, or -1 if it is absent.
	Count int64
	// Positions is the number of positions that control.source.offsets lists.
	Positions int
	// Malformed is why not all positions could be decoded. Nil means that all could. It wraps ErrPositions.
	Malformed error
	// Lost is the path of the first value that belongs to no measurement, because its column's indexes do not match the time
	// column's indexes. Empty means that every value belongs to a measurement.
	Lost string
}

func (m *Mismatch) agrees() bool {
	return m.Count == int64(m.Times) && m.Positions == m.Times && m.Malformed == nil && m.Lost == ""
}

// Error names every account.
func (m *Mismatch) Error() string {
	count := fmt.Sprint(m.Count)
	if m.Count < 0 {
		count = "absent"
	}
	text := fmt.Sprintf("the time column has %d measurements, %s is %s, %s lists %d positions",
		m.Times, PathCount, count, PathOffsets, m.Positions)
	if m.Malformed != nil {
		text += fmt.Sprintf(" (%v)", m.Malformed)
	}
	if m.Lost != "" {
		text += fmt.Sprintf(", and from %s on the values of this column belong to no measurement", m.Lost)
	}
	return text
}
