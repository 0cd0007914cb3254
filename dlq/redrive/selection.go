package redrive

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"time"

	"waterwheel/dlq"
)

// DefaultMaxAttempts is how often a record is tried by default, including the first time.
const DefaultMaxAttempts = 3

// Selection defines which letters a re-drive takes. Its text names the consumer group. So each selection has its own progress,
// and none commits past letters that another one would take.
type Selection struct {
	dlq.Filter
	// MaxAttempts is how often a record is tried, including the first time. Letters with as many attempts stay.
	MaxAttempts int
}

// These are the names in a selection's text.
const (
	textReason   = "reason"
	textTopic    = "topic"
	textFrom     = "from"
	textTo       = "to"
	textAttempts = "max-attempts"
)

// String returns the selection as one canonical text. It is empty for all letters and the default attempts. parseSelection reads
// it.
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
	for name, t := range map[string]time.Time{textFrom: s.From, textTo: s.To} { // Encode sorts
		if !t.IsZero() {
			values.Set(name, t.UTC().Format(time.RFC3339Nano))
		}
	}
	if s.MaxAttempts != DefaultMaxAttempts {
		values.Set(textAttempts, strconv.Itoa(s.MaxAttempts))
	}
	return values.Encode()
}

// parseSelection parses the result of String.
func parseSelection(text string) (Selection, error) {
	s := Selection{MaxAttempts: DefaultMaxAttempts}
	values, err := url.ParseQuery(text)
	if err != nil {
		return s, fmt.Errorf("reading the selection of dead letters %q: %w", text, err)
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
			err = fmt.Errorf("the field %q is not known", name)
		}
		if err != nil {
			return s, fmt.Errorf("reading the selection of dead letters %q: %w", text, err)
		}
	}
	return s, nil
}

// drives reports whether a letter goes back.
func (s *Selection) drives(f *dlq.Found) bool {
	return s.Selects(&f.Letter) && f.Attempts() < s.MaxAttempts && f.Letter.Cut == ""
}
