package cli

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"waterwheel/internal/check"
	"waterwheel/internal/cli/text"
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
	records := "record"
	if s.Records > 1 {
		records = fmt.Sprintf("%d records", s.Records)
	}
	fmt.Fprintf(w, "The %s %s of %s: %s", which, records, s.Topic, words.Count(s.Measurements, "measurement"))
	if s.Tombstones > 0 {
		fmt.Fprintf(w, ", %s", words.Count(s.Tombstones, "tombstone"))
	}
	if s.Skipped > 0 {
		fmt.Fprintf(w, ", %s skipped", words.Count(s.Skipped, "event"))
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
	printAdvice(w, s)
	fmt.Fprintln(w)
}

// printAdvice prints what a sample says about the settings: lines to copy, and what they would make of it.
func printAdvice(w io.Writer, s *check.Sample) {
	switch {
	case s.Proposal != nil:
		fmt.Fprintf(w, "\nThese look like %s. Proposed settings, confidence %s:\n\n", text.Printable(s.Proposal.Shape), s.Proposal.Confidence)
		printSettings(w, s, s.Proposal)
	case s.Question != "":
		fmt.Fprintf(w, "\nNo settings are proposed, because a person has to decide: %s.\n", text.Printable(s.Question))
		for i := range s.Choices {
			fmt.Fprintf(w, "\n%c. %s\n\n", 'A'+i, text.Printable(sentence(s.Choices[i].Means)))
			printSettings(w, s, &s.Choices[i])
		}
	case s.Unproposed != "":
		fmt.Fprintf(w, "\nNo settings are proposed: %s.\n", text.Printable(s.Unproposed))
	}
}

// printSettings prints a line of settings, and what speaks for and against it.
func printSettings(w io.Writer, s *check.Sample, p *check.Proposal) {
	fmt.Fprintf(w, "  %s\n\n", text.Printable(p.Line()))
	if s.Tried < s.Records-s.Tombstones {
		fmt.Fprintf(w, "  Tried    with %s, spread evenly over the sample\n", words.Count(s.Tried, "record"))
	}
	if p.Series > 0 {
		fmt.Fprintf(w, "  Makes    %s of %s, and %s\n", words.Count(p.Measurements, "measurement"), words.Count(p.Series, "series"), words.Count(p.Letters, "dead letter"))
	}
	list := func(title string, lines []string) {
		for i, line := range lines {
			if i > 0 {
				title = ""
			}
			fmt.Fprintf(w, "  %-9s%s\n", title, text.Printable(line))
		}
	}
	list("Because", p.Because)
	if len(p.Loses) == 0 {
		list("Loses", []string{"nothing that the sample shows"})
	}
	list("Loses", p.Loses)
	if len(p.Examples) > 0 {
		fmt.Fprintln(w)
	}
	for _, d := range p.Examples {
		fmt.Fprintf(w, "  %s\n", text.Fit(w, text.Printable(string(d)), 400))
	}
}

// sentence begins a text with a capital and ends it with a full stop.
func sentence(s string) string {
	if s == "" {
		return ""
	}
	return strings.ToUpper(s[:1]) + s[1:] + "."
}
