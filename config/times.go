package config

import (
	"errors"
	"strings"
	"time"

	"waterwheel/internal/measurement"
	"waterwheel/internal/words"
)

// Start is where a group without commits begins to read.
type Start struct {
	// Policy is "earliest", "latest" or "time".
	Policy string
	// Time is the starting time for the policy "time".
	Time time.Time
}

// UnmarshalText reads earliest, latest or a time as measurement.ParseTime does.
func (s *Start) UnmarshalText(text []byte) error {
	switch word := strings.ToLower(string(text)); word {
	case "earliest", "latest":
		*s = Start{Policy: word}
		return nil
	}
	t, ok := measurement.ParseTime(string(text))
	if !ok {
		return errors.New("must be earliest, latest, an RFC 3339 time such as 2026-01-31T00:00:00Z or a date such as 2026-01-31" +
			words.DidYouMean(string(text), []string{"earliest", "latest"}))
	}
	*s = Start{Policy: "time", Time: t}
	return nil
}

// String returns the setting's own notation.
func (s Start) String() string {
	if s.Policy == "time" {
		return s.Time.Format(time.RFC3339Nano)
	}
	return s.Policy
}

// formatDuration formats a duration without zeros at its end: 24h, not 24h0m0s.
func formatDuration(d time.Duration) string {
	return strings.NewReplacer("h0m0s", "h", "m0s", "m").Replace(d.String())
}
