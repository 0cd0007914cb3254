package dlq

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"time"
)

// DefaultMaxAttempts is how often a record is tried, its first time included, unless somebody says otherwise.
const DefaultMaxAttempts = 3

// Filter selects letters. The zero value selects all.
type Filter struct {
	// Reasons and Topics list the reasons and the source topics wanted; empty: all.
	Reasons, Topics []string
	// From and To bound the records' timestamps, To excluded; zero: no bound. A letter has the time of its record, not
	// that of its writing.
	From, To time.Time
}

// Selects tells whether a letter is wanted.
func (f *Filter) Selects(l *Letter) bool {
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

// Selection says which letters a re-drive takes. Its text names the consumer group, so that each selection has its own
// progress and none commits past letters that another would have taken.
type Selection struct {
	Filter
	// MaxAttempts is how often a record is tried, its first time included; letters of more attempts stay.
	MaxAttempts int
}

// The names in a selection's text.
const (
	textReason   = "reason"
	textTopic    = "topic"
	textFrom     = "from"
	textTo       = "to"
	textAttempts = "max-attempts"
)

// String is the selection in one canonical text, empty for all letters and the usual attempts. ParseSelection reads it.
func (s Selection) String() string {
	values := url.Values{}
	add := func(name string, list []string) {
		list = slices.Clone(list)
		slices.Sort(list)
		for _, one := range slices.Compact(list) {
			values.Add(name, one)
		}
	}
	add(textReason, s.Reasons)
	add(textTopic, s.Topics)
	for name, t := range map[string]time.Time{textFrom: s.From, textTo: s.To} {
		if !t.IsZero() {
			values.Set(name, t.UTC().Format(time.RFC3339Nano))
		}
	}
	if s.MaxAttempts != DefaultMaxAttempts {
		values.Set(textAttempts, strconv.Itoa(s.MaxAttempts))
	}
	return values.Encode()
}

// ParseSelection reads what String wrote.
func ParseSelection(text string) (Selection, error) {
	s := Selection{MaxAttempts: DefaultMaxAttempts}
	values, err := url.ParseQuery(text)
	if err != nil {
		return s, fmt.Errorf("reading the selection %q: %w", text, err)
	}
	for name, list := range values {
		switch name {
		case textReason:
			s.Reasons = list
		case textTopic:
			s.Topics = list
		case textFrom:
			s.From, err = time.Parse(time.RFC3339Nano, list[0])
		case textTo:
			s.To, err = time.Parse(time.RFC3339Nano, list[0])
		case textAttempts:
			s.MaxAttempts, err = strconv.Atoi(list[0])
		default:
			err = fmt.Errorf("%q is not known", name)
		}
		if err != nil {
			return s, fmt.Errorf("reading the selection %q: %w", text, err)
		}
	}
	return s, nil
}

// drives tells whether a letter goes back.
func (s *Selection) drives(l *Letter) bool {
	return s.Selects(l) && l.attempts() < s.MaxAttempts && l.Cut == ""
}
