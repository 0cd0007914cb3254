package dlq

import (
	"slices"
	"time"

	"waterwheel/internal/record"
)

// Filter selects letters. The zero value selects all.
type Filter struct {
	// Reasons and Topics list the reasons and the source topics wanted. Empty means all.
	Reasons, Topics []string
	// From and To bound the records' timestamps. To is exclusive. Zero means no bound. A letter has the time of its record, not
	// the time of its writing.
	From, To time.Time
}

// Selects reports whether a letter is wanted.
func (f *Filter) Selects(l *record.Letter) bool {
	switch {
	case len(f.Reasons) > 0 && !slices.Contains(f.Reasons, l.Reason):
		return false
	case len(f.Topics) > 0 && !slices.Contains(f.Topics, l.Topic):
		return false
	case !f.From.IsZero() && l.Timestamp < f.From.UnixMilli():
		return false
	}
	return f.To.IsZero() || l.Timestamp < f.To.UnixMilli()
}
