package cli

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"waterwheel/internal/cli/text"
	"waterwheel/internal/status"
	"waterwheel/internal/words"
)

// printConsumers prints the state of each consumer.
func (p *Program) printConsumers(w io.Writer, all []consumerSeen) {
	for i := range all {
		if i > 0 {
			fmt.Fprintln(w)
		}
		seen := &all[i]
		if seen.Err != "" {
			fmt.Fprintf(w, "%s does not answer: %s\n", seen.URL, text.Printable(seen.Err))
			if seen.silent {
				fmt.Fprintln(w, "  Is the consumer running, and is this its HTTP_ADDR? By default a consumer answers its own machine only. --of asks other addresses.")
			}
			continue
		}
		s := seen.Status
		fmt.Fprintf(w, "%s  group %s, generation %d, version %s\n", seen.URL, text.Printable(s.Group), s.Generation, text.Printable(s.Version))
		fmt.Fprintln(w, text.Printable(s.Headline.Text))
		for _, others := range [][]status.Notice{s.NotReady, s.Degraded} {
			for _, n := range others {
				if !strings.Contains(s.Headline.Text, n.Text) {
					fmt.Fprintln(w, "  "+text.Printable(n.Text))
				}
			}
		}
		if about := s.Headline.Runbook; about != "" {
			fmt.Fprintf(w, "What to do: %s/docs/runbook.md#%s\n", seen.URL, text.Printable(about))
		}
		p.printHour(w, seen.Hour)
		printPartitions(w, s)
	}
	shown := map[string]bool{} // groups
	for i := range all {
		if s := all[i].Status; s != nil && len(s.Members) > 1 && !shown[s.Group] {
			shown[s.Group] = true
			printMembers(w, s, len(all) == 1)
		}
	}
}

// printHour prints the four values of the last hour, each as a line of bars.
func (p *Program) printHour(w io.Writer, h *status.Hour) {
	const bars = 60
	levels := []rune("▁▂▃▄▅▆▇█")
	if p.screen == (terminal{}) || !p.showsUnicode() {
		levels = []rune("_.:-=+*#@")
	}
	fmt.Fprintln(w)
	for _, line := range []struct {
		name   string
		values []*float64
		number func(float64) string
	}{
		{"stored per second", h.Stored, status.Count},
		{"freshness", h.Freshness, status.Age},
		{"lag, in records", h.Lag, status.Count},
		{"dead letters", h.Letters, status.Count},
	} {
		most := 0.0
		for _, v := range line.values {
			if v != nil {
				most = max(most, *v)
			}
		}
		drawn := make([]rune, bars)
		for i := range drawn {
			level := -1
			for _, v := range line.values[i*len(line.values)/bars : (i+1)*len(line.values)/bars] {
				if v != nil {
					level = max(level, int(*v/max(most, 1)*float64(len(levels)-1)))
				}
			}
			drawn[i] = ' '
			if level >= 0 {
				drawn[i] = levels[level]
			}
		}
		now := text.Unknown
		if n := len(line.values); n > 0 && line.values[n-1] != nil {
			now = line.number(*line.values[n-1])
		} else if n > 1 && line.values[n-2] != nil { // the interval has just begun
			now = line.number(*line.values[n-2])
		}
		fmt.Fprintf(w, "%-17s %8s  |%s|  at most %s\n", line.name, now, string(drawn), line.number(most))
	}
	fmt.Fprintln(w)
}

func printPartitions(w io.Writer, s *status.Report) {
	table := text.NewTable(w, "PARTITION", "STATE", "LAG", "FRESHNESS", "WAITING", "BUCKETS", "COMMITTED")
	for i := range s.Partitions {
		one := &s.Partitions[i]
		state := one.State
		for _, why := range []string{one.StopReason, one.Trouble} {
			if why != "" {
				state += ": " + text.Shorten(why, 60)
			}
		}
		if one.Paused != "" {
			state += ", paused: " + one.Paused
		}
		table.Row(one.Partition, state, text.Number(one.Lag), text.Seconds(one.FreshnessSeconds), one.Pending, one.OpenBuckets, text.Number(one.Committed))
	}
	table.Flush()
}

// printMembers prints the members of the group. alone means that only one consumer is shown, so its own row is marked.
func printMembers(w io.Writer, s *status.Report, alone bool) {
	fmt.Fprintln(w)
	silent := 0
	table := text.NewTable(w, "MEMBER", "ADDRESS", "COUNT", "PARTITIONS")
	for i := range s.Members {
		m := &s.Members[i]
		name := m.Name
		switch {
		case m.This && alone:
			name += " (this consumer)"
		case m.Foreign:
			name += " (another program)"
		}
		if m.Page == "" && !m.This && !m.Foreign {
			silent++
		}
		table.Row(name, cmp.Or(m.Page, m.Host), m.Count(), text.Fit(w, m.Listed(), 60))
	}
	table.Flush()
	if silent > 0 {
		fmt.Fprintf(w, "%s %s no address for --group: HTTP_ADDR is empty, or answers that machine only. --of asks addresses that you name.\n",
			words.Count(silent, "member"), words.Form(silent, "announces", "announce"))
	}
}
