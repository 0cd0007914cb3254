package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"waterwheel/cmd/consumer/internal/text"
	"waterwheel/dlq"
)

func (p *program) dlqStatsCommand() *cobra.Command {
	var f letterFilter
	cmd := &cobra.Command{
		Use:   "stats",
		Short: "Count dead letters by reason and by hour",
		Args:  noArguments,
		RunE:  func(cmd *cobra.Command, _ []string) error { return p.letterStats(cmd.Context(), f) },
	}
	f.flags(cmd)
	p.outputFlag(cmd, "table")
	return cmd
}

func (p *program) letterStats(ctx context.Context, flags letterFilter) error {
	stats := dlq.NewStats()
	err := p.scanSelected(ctx, flags, func(f *dlq.Found) error {
		stats.Add(f)
		return nil
	})
	if err != nil {
		return err
	}
	return p.show(newStatsView(stats), func(w io.Writer) { printStats(w, stats) })
}

// StatsView is what dlq stats prints as JSON.
type StatsView struct {
	Letters int64 `json:"letters"`
	// Copies are those of Letters that were written again for the same record.
	Copies int64 `json:"copies"`
	// Others are records of the dead-letter topics that are no letters.
	Others  int64            `json:"others"`
	Oldest  time.Time        `json:"oldest,omitzero"`
	Newest  time.Time        `json:"newest,omitzero"`
	Reasons map[string]int64 `json:"reasons"`
	Topics  map[string]int64 `json:"topics"`
	Hours   []HourView       `json:"hours"`
}

// HourView is the letters of records of one hour.
type HourView struct {
	Hour    time.Time        `json:"hour"`
	Reasons map[string]int64 `json:"reasons"`
}

func newStatsView(s *dlq.Stats) StatsView {
	view := StatsView{
		Letters: s.Letters, Copies: s.Copies, Others: s.Others, Oldest: s.Oldest, Newest: s.Newest, Reasons: s.Reasons, Topics: s.Topics,
		Hours: []HourView{},
	}
	for _, hour := range slices.SortedFunc(maps.Keys(s.Hours), time.Time.Compare) {
		view.Hours = append(view.Hours, HourView{hour, s.Hours[hour]})
	}
	return view
}

func printStats(w io.Writer, s *dlq.Stats) {
	fmt.Fprintf(w, "%d letters", s.Letters)
	if s.Letters > 0 {
		fmt.Fprintf(w, ", of records from %s to %s", text.Time(s.Oldest), text.Time(s.Newest))
	}
	fmt.Fprintln(w)
	if s.Copies > 0 {
		fmt.Fprintf(w, "%d of them are copies, written again for the same record after a crash or a failed request: they are of %d records, and a re-drive takes each once\n",
			s.Copies, s.Letters-s.Copies)
	}
	if s.Others > 0 {
		fmt.Fprintf(w, "%d records of the dead-letter topics are no letters\n", s.Others)
	}
	if s.Letters == 0 {
		return
	}
	fmt.Fprintln(w)
	text.Chart(w, "REASON", "LETTERS", s.Reasons)
	if len(s.Topics) > 1 {
		fmt.Fprintln(w)
		text.Chart(w, "TOPIC", "LETTERS", s.Topics)
	}
	fmt.Fprintln(w)
	printHours(w, s)
}

func printHours(w io.Writer, s *dlq.Stats) {
	var most int64
	for _, reasons := range s.Hours {
		most = max(most, text.Sum(reasons))
	}
	table := text.NewTable(w, "HOUR (UTC)", "LETTERS", "", "REASONS")
	for _, hour := range slices.SortedFunc(maps.Keys(s.Hours), time.Time.Compare) {
		reasons := s.Hours[hour]
		var list []string
		for _, name := range text.ByCount(reasons) {
			list = append(list, fmt.Sprintf("%s %d", name, reasons[name]))
		}
		total := text.Sum(reasons)
		table.Row(hour.Format("2006-01-02 15h"), total, text.Bar(total, most), strings.Join(list, ", "))
	}
	table.Flush()
}
