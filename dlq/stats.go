package dlq

import "time"

// Stats are counts of letters.
type Stats struct {
	// Letters is the number of letters.
	Letters int64 `json:"letters"`
	// Copies is the number of letters whose position was counted before. Re-drives skip them.
	Copies int64 `json:"copies"`
	// Others is the number of records that are not letters.
	Others int64 `json:"others"`
	// Oldest and Newest are the bounds of the records' timestamps. They are zero if there are no letters.
	Oldest time.Time `json:"oldest,omitzero"`
	Newest time.Time `json:"newest,omitzero"`
	// Reasons and Topics count letters by reason and by source topic.
	Reasons map[string]int64 `json:"reasons"`
	Topics  map[string]int64 `json:"topics"`
	// Hours counts letters by the hour of their record's timestamp (UTC) and by reason.
	Hours map[time.Time]map[string]int64 `json:"-"`

	known Positions
}

// NewStats returns empty Stats.
func NewStats() *Stats {
	return &Stats{Reasons: map[string]int64{}, Topics: map[string]int64{}, Hours: map[time.Time]map[string]int64{}, known: NewPositions()}
}

// Add counts a record of a dead-letter topic.
func (s *Stats) Add(f *Found) {
	if f.Err != nil {
		s.Others++
		return
	}
	l := &f.Letter
	s.Letters++
	if !s.known.Add(l) {
		s.Copies++
	}
	s.Reasons[l.Reason]++
	s.Topics[l.Topic]++
	at := time.UnixMilli(l.Timestamp).UTC()
	hour := at.Truncate(time.Hour)
	if s.Hours[hour] == nil {
		s.Hours[hour] = map[string]int64{}
	}
	s.Hours[hour][l.Reason]++
	if s.Oldest.IsZero() || at.Before(s.Oldest) {
		s.Oldest = at
	}
	if s.Newest.IsZero() || at.After(s.Newest) {
		s.Newest = at
	}
}
