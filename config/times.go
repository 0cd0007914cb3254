package config

import (
	"fmt"
	"strings"
	"time"
)

// Start is where a group without commits begins.
type Start struct {
	// Policy is "earliest", "latest" or "time".
	Policy string
	// Time is where it begins under the policy "time".
	Time time.Time
}

// UnmarshalText reads earliest, latest or an RFC 3339 time.
func (s *Start) UnmarshalText(text []byte) error {
	switch word := string(text); word {
	case "earliest", "latest":
		*s = Start{Policy: word}
		return nil
	}
	t, err := time.Parse(time.RFC3339Nano, string(text))
	if err != nil {
		return fmt.Errorf("not earliest, latest or an RFC 3339 time such as 2026-01-31T00:00:00Z")
	}
	*s = Start{Policy: "time", Time: t}
	return nil
}

// String is the setting's own notation.
func (s Start) String() string {
	if s.Policy == "time" {
		return s.Time.Format(time.RFC3339Nano)
	}
	return s.Policy
}

// TimeBound is an end of the window of accepted times.
type TimeBound struct {
	// Relative: the bound is Offset from the record's Kafka timestamp, otherwise it is Time.
	Relative bool
	Offset   time.Duration
	Time     time.Time
}

// UnmarshalText reads an RFC 3339 time or a signed Go duration.
func (b *TimeBound) UnmarshalText(text []byte) error {
	s := string(text)
	if strings.HasPrefix(s, "+") || strings.HasPrefix(s, "-") {
		d, err := time.ParseDuration(s)
		if err != nil {
			return fmt.Errorf("not a distance from the record's timestamp such as +24h or -90m")
		}
		*b = TimeBound{Relative: true, Offset: d}
		return nil
	}
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		return fmt.Errorf("neither an RFC 3339 time such as 1990-01-01T00:00:00Z nor a signed duration such as +24h")
	}
	*b = TimeBound{Time: t}
	return nil
}

// String is the setting's own notation.
func (b TimeBound) String() string {
	if !b.Relative {
		return b.Time.Format(time.RFC3339Nano)
	}
	text := formatDuration(b.Offset)
	if b.Offset >= 0 {
		text = "+" + text
	}
	return text
}

// formatDuration writes a duration without the zeros at its end: 24h, not 24h0m0s.
func formatDuration(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
