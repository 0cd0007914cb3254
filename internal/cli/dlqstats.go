package cli

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"waterwheel/dlq"
	"waterwheel/internal/cli/text"
	"waterwheel/internal/words"
)

func (p *Program) dlqStatsCommand() *cobra.Command {
	var filter letterFilter
	cmd := p.onLetters(&cobra.Command{
		Use:   "stats",
		Short: "Count dead letters by reason and by hour",
		Args:  noArguments,
	}, filter.read, func(ctx context.Context, from *letters) error { return p.letterStats(ctx, from, &filter.Filter) })
	filter.flags(cmd)
	return cmd
}

func (p *Program) letterStats(ctx context.Context, from *letters, filter *dlq.Filter) error {
	stats := dlq.NewStats()
	wrong, err := p.scanSelected(ctx, from, filter, func(f *dlq.Found) error {
		stats.Add(f)
		return nil
	})
	if err != nil {
		return err
	}
	view := newStatsView(stats)
	if err := p.show(view, view.print); err != nil {
		return err
	}
	return wrong
}

// StatsView is what dlq stats prints as JSON.
type StatsView struct {
	*dlq.Stats
	// Hours are those of the statistics, in order.
	Hours []HourView `json:"hours"`
}

// HourView is the letters of records of one hour.
type HourView struct {
	Hour    time.Time        `json:"hour"`
	Reasons map[string]int64 `json:"reasons"`
}

func newStatsView(s *dlq.Stats) StatsView {
	view := StatsView{s, []HourView{}}
	for _, hour := range slices.SortedFunc(maps.Keys(s.Hours), time.Time.Compare) {
		view.Hours = append(view.Hours, HourView{hour, s.Hours[hour]})
	}
	return view
}

func (s StatsView) print(w io.Writer) {
	fmt.Fprint(w, words.Count(s.Letters, "letter"))
	if s.Letters > 0 {
		fmt.Fprintf(w, ", of records from %s to %s", text.Time(s.Oldest), text.Time(s.Newest))
	}
	fmt.Fprintln(w)
	if s.Copies > 0 {
		fmt.Fprintf(w, "%d of them %s, written again for the same record after a crash or a failed request: they are of %s, and a re-drive takes each once\n",
			s.Copies, words.Form(s.Copies, "is a copy", "are copies"), words.Count(s.Letters-s.Copies, "record"))
	}
	if s.Others > 0 {
		fmt.Fprintf(w, "%s of the dead-letter topics %s\n", words.Count(s.Others, "record"), words.Form(s.Others, "is no letter", "are no letters"))
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
	s.printHours(w)
}

func (s StatsView) printHours(w io.Writer) {
	var most int64
	for _, one := range s.Hours {
		most = max(most, text.Sum(one.Reasons))
	}
	table := text.NewTable(w, "HOUR (UTC)", "LETTERS", "", "REASONS")
	for _, one := range s.Hours {
		var list []string
		for _, name := range text.ByCount(one.Reasons) {
			list = append(list, fmt.Sprintf("%s %d", name, one.Reasons[name]))
		}
		total := text.Sum(one.Reasons)
		table.Row(one.Hour.Format("2006-01-02 15h"), total, text.Bar(total, most), strings.Join(list, ", "))
	}
	table.Flush()
}
