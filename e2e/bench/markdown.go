package bench

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Markdown returns the report as Markdown.
func (r *Report) Markdown() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("# From Kafka to MongoDB, end to end\n")
	if r.Command != "" {
		line("    %s\n", r.Command)
	}
	m := r.Machine
	line("- %s; load %.1f before the first round", m.hardware(), m.Load)
	line("- Kafka: %s; MongoDB: %s; Go %s; commit %s", or(m.Kafka), or(m.MongoDB), m.Go, or(m.Commit))
	line("- %s", r.Load.describe(r.EventBytes))
	if len(r.Settings) > 0 {
		var settings []string
		for _, name := range slices.Sorted(maps.Keys(r.Settings)) {
			settings = append(settings, "`"+name+"="+r.Settings[name]+"`")
		}
		line("- the consumer's settings beside the usual ones: %s", strings.Join(settings, ", "))
	}
	line("- %d rounds; medians, in brackets least and most; %s\n", r.Rounds, r.At.Format(time.RFC3339))
	line("| peer | measurements/s | a second of own CPU | own CPU each | server CPU each | Kafka CPU each | bytes each: data / disk / indexes | documents | resident | all stored once |")
	line("|---|---|---|---|---|---|---|---|---|---|")
	for _, s := range r.Summaries {
		line("%s", s.row())
	}
	line("")
	for _, s := range r.Summaries {
		if s.Note != "" {
			line("%s: %s.", s.Peer, s.Note)
		}
	}
	for _, ratio := range r.Ratios {
		line("waterwheel / %s: %s (%s to %s) times the measurements a second.", ratio.To, digits(ratio.Median), digits(ratio.Least), digits(ratio.Most))
	}
	return b.String()
}

func (m Machine) hardware() string {
	memory := "memory not known"
	if m.Memory > 0 {
		memory = fmt.Sprintf("%.1f GiB", float64(m.Memory)/(1<<30))
	}
	return fmt.Sprintf("%s, %d cores, %s", or(m.Processor), m.Cores, memory)
}

// describe returns the load in a line.
func (l Load) describe(eventBytes float64) string {
	return fmt.Sprintf("%d records of %.0f bytes of JSON, %d series, %d fields, a step of %s, order %s, %g %% late, codec %s, %d partitions",
		l.Records, eventBytes, l.Series, l.Fields, l.Step, l.Order, 100*l.Late, l.Codec, l.Partitions)
}

// row returns the summary's line of the table.
func (s Summary) row() string {
	complete := "yes"
	if !s.Complete {
		complete = "**no**"
	}
	bytes, documents, resident := unknown, unknown, unknown
	if s.Data > 0 {
		bytes = fmt.Sprintf("%.0f / %s / %s", s.Data, size(s.Disk), size(s.Indexes))
	}
	if s.Documents > 0 {
		documents = fmt.Sprint(s.Documents)
	}
	if s.MaxResident > 0 {
		resident = fmt.Sprintf("%.0f MiB", float64(s.MaxResident)/(1<<20))
	}
	cells := []string{
		string(s.Peer), s.Rate.cell(thousands, ""), s.RatePerCore.cell(thousands, ""), s.CPU.cell(digits, " µs"),
		s.ServerCPU.cell(digits, " µs"), s.KafkaCPU.cell(digits, " µs"), bytes, documents, resident, complete,
	}
	return "| " + strings.Join(cells, " | ") + " |"
}

// size formats a size, which is 0 if the server does not report it.
func size(bytes float64) string {
	if bytes == 0 {
		return unknown
	}
	return digits(bytes)
}

// unknown stands for an unknown figure.
const unknown = "–"

// cell formats the spread for a table.
func (s *Spread) cell(write func(float64) string, unit string) string {
	if s == nil {
		return unknown
	}
	if s.Least == s.Most {
		return write(s.Median) + unit
	}
	return fmt.Sprintf("%s%s (%s–%s)", write(s.Median), unit, write(s.Least), write(s.Most))
}

func or(s string) string {
	if s == "" {
		return "not known"
	}
	return s
}
