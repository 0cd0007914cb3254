package main

import (
	"fmt"
	"io"
	"unicode/utf8"

	"waterwheel/check"
	"waterwheel/cmd/consumer/internal/text"
	"waterwheel/internal/words"
)

// checkView is what check prints as JSON.
type checkView struct {
	Findings check.Findings `json:"findings"`
	Samples  []check.Sample `json:"samples,omitempty"`
}

func (v checkView) print(w io.Writer) {
	for i := range v.Samples {
		if v.Samples[i].Records > 0 {
			printSample(w, &v.Samples[i])
		}
	}
	printFindings(w, v.Findings)
}

// printFindings prints a table, ways out below their findings.
func printFindings(w io.Writer, found check.Findings) {
	width := 0
	for _, one := range found {
		width = max(width, utf8.RuneCountInString(one.Subject))
	}
	for _, one := range found {
		fmt.Fprintf(w, "%-8s %-*s  %s\n", one.State, width, one.Subject, text.Printable(one.Text))
		if one.WayOut != "" {
			fmt.Fprintf(w, "%*s→ %s\n", 8+1+width+2, "", text.Printable(one.WayOut))
		}
	}
	wrong, warnings := found.Count(check.Wrong), found.Count(check.Warning)
	if wrong == 0 && warnings == 0 {
		fmt.Fprintln(w, "\nNothing is wrong.")
		return
	}
	fmt.Fprintf(w, "\n%d wrong, %s.\n", wrong, words.Count(warnings, "warning"))
}

func printSample(w io.Writer, s *check.Sample) {
	which := "newest"
	if s.Topic == check.FeedName {
		which = "first"
	}
	fmt.Fprintf(w, "The %s %s of %s: %s", which, words.Count(s.Records, "record"), s.Topic, words.Count(s.Measurements, "measurement"))
	if s.Tombstones > 0 {
		fmt.Fprint(w, ", ", words.Count(s.Tombstones, "tombstone"))
	}
	fmt.Fprintln(w)
	for _, d := range s.Examples {
		fmt.Fprintf(w, "  %s\n", text.Fit(w, text.Printable(string(d)), 400))
	}
	table := text.NewTable(w)
	if len(s.Bad) > 0 {
		table.Title("\nLETTERS", "REASON", "RECORD", "EXAMPLE")
		for _, b := range s.Bad {
			table.Row(b.Count, b.Reason, b.From, text.Fit(w, text.Printable(withoutReason(b.Example, b.Reason)), 160))
		}
	}
	if s.Buckets > 0 {
		table.Flush()
		fmt.Fprintf(w, "\nThey would be %s in %s, %.1f measurements in each; the fullest:\n", words.Count(s.Series, "series"), words.Count(s.Buckets, "bucket"), float64(s.Measurements)/float64(s.Buckets))
		table.Title("MEASUREMENTS", "BYTES", "FIRST", "LAST", "PARTITION", "META")
		for _, b := range s.Largest {
			table.Row(b.Measurements, b.Bytes, b.First, b.Last, b.From, text.Fit(w, text.Printable(string(b.Meta)), 100))
		}
	}
	if len(s.Fields) > 0 {
		table.Title("\nVALUES", "FIELD OF META")
		for _, f := range s.Fields {
			table.Row(f.Values, f.Name())
		}
	}
	table.Flush()
	printProposals(w, s)
	fmt.Fprintln(w)
}

// printProposals prints settings that would suit a sample better, as lines to copy, and what they would make of it.
func printProposals(w io.Writer, s *check.Sample) {
	if s.Unproposed != "" {
		fmt.Fprintf(w, "\nNo settings are proposed: %s.\n", text.Printable(s.Unproposed))
	}
	for i, p := range s.Proposals {
		begin := "These look like"
		if i > 0 {
			begin = "Or they are"
		}
		fmt.Fprintf(w, "\n%s %s. With these settings %d of the first %d would be measurements, of %d series:\n\n  %s\n\n", begin, text.Printable(p.Shape),
			p.Measurements, p.Measurements+p.Letters, p.Series, text.Printable(p.Line()))
		if p.Caution != "" {
			fmt.Fprintf(w, "  But %s.\n\n", text.Printable(p.Caution))
		}
		for _, d := range p.Examples {
			fmt.Fprintf(w, "  %s\n", text.Fit(w, text.Printable(string(d)), 400))
		}
	}
}
