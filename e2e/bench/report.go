package bench

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// Report is the result of a run.
type Report struct {
	At      time.Time `json:"at"`
	Command string    `json:"command,omitempty"`
	Machine Machine   `json:"machine"`
	Load    Load      `json:"load"`
	// Topic is the name of the topic that held the load. The names of the databases and groups begin with it.
	Topic  string `json:"topic"`
	Rounds int    `json:"rounds"`
	// EventBytes is the mean length of an event.
	EventBytes float64 `json:"event_bytes"`
	// Settings are further settings of the consumer.
	Settings map[string]string `json:"settings,omitempty"`
	Results  []Result          `json:"results"`
	// Summaries holds one summary of each peer. Ratios compares them.
	Summaries []Summary `json:"summaries"`
	Ratios    []Ratio   `json:"ratios"`
}

// Summary is the result of one peer over all rounds.
type Summary struct {
	Peer Peer   `json:"peer"`
	Note string `json:"note,omitempty"`
	// Rate is in measurements a second. RatePerCore is in measurements per second of own processor time.
	Rate        Spread `json:"rate"`
	RatePerCore Spread `json:"rate_per_core"`
	// CPU, ServerCPU and KafkaCPU are processor times per measurement, in microseconds. Nil means unknown.
	CPU       Spread  `json:"cpu_us"`
	ServerCPU *Spread `json:"server_cpu_us,omitempty"`
	KafkaCPU  *Spread `json:"kafka_cpu_us,omitempty"`
	// Data, Disk and Indexes are bytes per measurement in the last round. Zero means unknown.
	Data    float64 `json:"data_bytes"`
	Disk    float64 `json:"disk_bytes"`
	Indexes float64 `json:"index_bytes"`
	// Documents is the number of documents in the last round. MaxResident is the maximum over all rounds, in bytes. Zero means
	// unknown.
	Documents   int64 `json:"documents"`
	MaxResident int64 `json:"max_resident_bytes"`
	// Complete reports that each measurement was stored once in every round.
	Complete bool `json:"complete"`
}

// Spread is the median of several figures, with the least and the greatest.
type Spread struct {
	Median float64 `json:"median"`
	Least  float64 `json:"least"`
	Most   float64 `json:"most"`
}

// Ratio is how many times faster Waterwheel was than another peer in the same round.
type Ratio struct {
	To Peer `json:"to"`
	Spread
}

// IncompleteError names the peers that have not stored every measurement once.
type IncompleteError struct{ Results []Result }

// Error names each incomplete turn with the numbers of stored and of all measurements.
func (e *IncompleteError) Error() string {
	lines := make([]string, len(e.Results))
	for i, r := range e.Results {
		lines[i] = fmt.Sprintf("round %d: %s stored %d of %d measurements, %d of them more than once", r.Round, r.Peer, r.Stored, r.Measurements, r.Doubled)
	}
	return strings.Join(lines, "\n")
}

// incomplete returns nil if everything is stored.
func (r *Report) incomplete() error {
	lacking := slices.DeleteFunc(slices.Clone(r.Results), Result.Complete)
	if len(lacking) == 0 {
		return nil
	}
	return &IncompleteError{lacking}
}

// Summarise computes summaries and ratios from the results. All peers must have results of the same rounds.
func (r *Report) Summarise() {
	r.Summaries, r.Ratios = nil, nil
	for _, peer := range Peers {
		if results := r.of(peer); len(results) > 0 {
			r.Summaries = append(r.Summaries, summaryOf(results))
		}
	}
	ours := r.of(Waterwheel)
	for _, peer := range Peers {
		theirs := r.of(peer)
		if peer == Waterwheel || len(theirs) == 0 || len(ours) == 0 {
			continue
		}
		var ratios []float64
		for i := range ours {
			ratios = append(ratios, ours[i].Rate()/theirs[i].Rate())
		}
		r.Ratios = append(r.Ratios, Ratio{peer, spreadOf(ratios)})
	}
}

// of returns the results of one peer, by round.
func (r *Report) of(peer Peer) []Result {
	results := slices.DeleteFunc(slices.Clone(r.Results), func(r Result) bool { return r.Peer != peer })
	slices.SortStableFunc(results, func(a, b Result) int { return a.Round - b.Round })
	return results
}

func summaryOf(results []Result) Summary {
	last := results[len(results)-1]
	n := float64(last.Measurements)
	s := Summary{
		Peer: last.Peer, Note: last.Note, Documents: last.Size.Documents, Complete: true,
		Data: float64(last.Size.Data) / n, Disk: float64(last.Size.Disk) / n, Indexes: float64(last.Size.Indexes) / n,
	}
	var rates, perCore, own []float64
	var server, kafka []*time.Duration
	for _, r := range results {
		rates, perCore, own = append(rates, r.Rate()), append(perCore, r.RatePerCore()), append(own, r.each(r.CPU))
		server, kafka = append(server, r.ServerCPU), append(kafka, r.KafkaCPU)
		s.MaxResident = max(s.MaxResident, r.MaxResident)
		s.Complete = s.Complete && r.Complete()
	}
	s.Rate, s.RatePerCore, s.CPU = spreadOf(rates), spreadOf(perCore), spreadOf(own)
	s.ServerCPU, s.KafkaCPU = eachOf(last, server), eachOf(last, kafka)
	return s
}

// each returns a time per measurement, in microseconds.
func (r Result) each(d time.Duration) float64 {
	return float64(d) / float64(time.Microsecond) / float64(r.Measurements)
}

// eachOf returns the spread of times per measurement. It returns nil if one of them is unknown.
func eachOf(r Result, times []*time.Duration) *Spread {
	var figures []float64
	for _, t := range times {
		if t == nil {
			return nil
		}
		figures = append(figures, r.each(*t))
	}
	s := spreadOf(figures)
	return &s
}

// spreadOf returns the spread of at least one figure.
func spreadOf(figures []float64) Spread {
	sorted := slices.Sorted(slices.Values(figures))
	n := len(sorted)
	return Spread{Median: (sorted[(n-1)/2] + sorted[n/2]) / 2, Least: sorted[0], Most: sorted[n-1]}
}

// thousands formats a number with three significant digits, such as 155 k or 1.21 M.
func thousands(x float64) string {
	switch {
	case x >= 999_500:
		return digits(x/1e6) + " M"
	case x >= 999.5:
		return digits(x/1e3) + " k"
	}
	return digits(x)
}

// digits formats a number with three significant digits, or with all digits before the point.
func digits(x float64) string {
	if x == 0 {
		return "0"
	}
	decimals := 2 - int(math.Floor(math.Log10(math.Abs(x))))
	return fmt.Sprintf("%.*f", min(max(decimals, 0), 6), x)
}
