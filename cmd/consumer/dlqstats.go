package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"waterwheel/dlq"
)

// statsBar is the length of the longest bar in characters.
const statsBar = 40

func (p *program) dlqStatsCommand() *cobra.Command {
	var f letterFilter
	var output string
	cmd := &cobra.Command{
		Use:   "stats",
		Short: "Count dead letters by reason and by hour",
		Args:  noArguments,
		RunE:  func(cmd *cobra.Command, _ []string) error { return p.letterStats(cmd.Context(), f, output) },
	}
	f.flags(cmd)
	outputFlag(cmd, &output)
	return cmd
}

func (p *program) letterStats(ctx context.Context, flags letterFilter, output string) error {
	if err := checkOutput(output); err != nil {
		return err
	}
	stats := dlq.NewStats()
	err := p.scanSelected(ctx, flags, func(f *dlq.Found) error {
		stats.Add(f)
		return nil
	})
	if err != nil {
		return err
	}
	if output == "json" {
		return writeJSON(p.stdout, newStatsView(stats))
	}
	return printStats(p.stdout, stats)
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

func writeJSON(w io.Writer, value any) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(value)
}

func printStats(w io.Writer, s *dlq.Stats) error {
	fmt.Fprintf(w, "%d letters", s.Letters)
	if s.Letters > 0 {
		fmt.Fprintf(w, ", of records from %s to %s", formatTime(s.Oldest), formatTime(s.Newest))
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
		return nil
	}
	fmt.Fprintln(w)
	if err := printCounts(w, "REASON", s.Reasons); err != nil {
		return err
	}
	if len(s.Topics) > 1 {
		fmt.Fprintln(w)
		if err := printCounts(w, "TOPIC", s.Topics); err != nil {
			return err
		}
	}
	fmt.Fprintln(w)
	return printHours(w, s)
}

// printCounts prints counts with bars, the largest first.
func printCounts(w io.Writer, title string, counts map[string]int64) error {
	table := newTable(w)
	fmt.Fprintf(table, "%s\tLETTERS\t\n", title)
	names := byCount(counts)
	for _, name := range names {
		fmt.Fprintf(table, "%s\t%d\t%s\n", printable(name), counts[name], bar(counts[name], counts[names[0]]))
	}
	return table.Flush()
}

func printHours(w io.Writer, s *dlq.Stats) error {
	var most int64
	for _, reasons := range s.Hours {
		most = max(most, sum(reasons))
	}
	table := newTable(w)
	fmt.Fprintln(table, "HOUR (UTC)\tLETTERS\t\tREASONS")
	for _, hour := range slices.SortedFunc(maps.Keys(s.Hours), time.Time.Compare) {
		reasons := s.Hours[hour]
		var list []string
		for _, name := range byCount(reasons) {
			list = append(list, fmt.Sprintf("%s %d", printable(name), reasons[name]))
		}
		fmt.Fprintf(table, "%s\t%d\t%s\t%s\n", hour.Format("2006-01-02 15h"), sum(reasons), bar(sum(reasons), most), strings.Join(list, ", "))
	}
	return table.Flush()
}

func sum(counts map[string]int64) (n int64) {
	for _, count := range counts {
		n += count
	}
	return n
}

// byCount lists names, those of large counts first.
func byCount(counts map[string]int64) []string {
	return slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
}

// bar draws a count; every count has at least a dot.
func bar(count, most int64) string {
	if n := count * statsBar / max(1, most); n > 0 {
		return strings.Repeat("█", int(n))
	}
	return "·"
}
