package main

import (
	"fmt"
	"io"
	"strings"

	"waterwheel/cmd/consumer/internal/text"
	"waterwheel/dlq/redrive"
)

// RedriveView is what dlq redrive prints as JSON.
type RedriveView struct {
	Group  string `json:"group"`
	DryRun bool   `json:"dryRun"`
	redrive.Report
}

func (p *program) printRedrive(o redrive.Options, group string, r redrive.Report) error {
	if r.Reasons == nil {
		r.Reasons = map[string]int64{}
	}
	return p.show(RedriveView{group, o.DryRun, r}, func(w io.Writer) { printReport(w, o, group, r) })
}

func printReport(w io.Writer, o redrive.Options, group string, r redrive.Report) {
	table := text.NewTable(w)
	verb := "driven back"
	if o.DryRun {
		verb = "would be driven back"
	}
	reasons := func(counts map[string]int64) {
		for _, reason := range text.ByCount(counts) {
			table.Row("", fmt.Sprintf("  %s: %d", reason, counts[reason]))
		}
	}
	table.Row(r.Driven, verb)
	reasons(r.Reasons)
	if r.Gone > 0 {
		table.Row(r.Gone, "of these are of records that their topics have no more, whose keys could not be compared")
	}
	if o.DryRun && r.Driven > 0 {
		table.Row(text.Sum(r.Again), "of these would become letters again, by the present settings (what MongoDB refuses is not asked)")
		reasons(r.Again)
	}
	for _, one := range []struct {
		count int64
		what  string
	}{
		{r.Arrived, "had arrived already when a former run was cut off"},
		{r.Refused, "stay: their topics do not take them; each is named above"},
		{r.Doubles, "doubles, or driven by another selection"},
		{r.Exhausted, fmt.Sprintf("stay: tried %d times or more (--max-attempts)", o.Selection.MaxAttempts)},
		{r.Cut, "stay: too long for the dead-letter topic, a part of their value is lost; only their source topic may still have them (dlq show)"},
		{r.Strays, "stay: they are not of the records that they name, as is said above"},
		{r.Others, "are no letters"},
		{r.Unselected, "not selected"},
		{r.Total - r.Read, "not looked at yet"},
	} {
		if one.count > 0 {
			table.Row(one.count, one.what)
		}
	}
	table.Flush()
	if group != "" {
		fmt.Fprintf(w, "progress is kept by the consumer group %s\n", group)
	}
}

// nameRefused says that a letter stays.
func (p *program) nameRefused(r redrive.Refusal) {
	fmt.Fprintf(p.stderr, "The letter %s stays: %s does not take it: %v\n", r.Place, r.To, r.Err)
}

// tellStaying says what to do about letters that were refused or are of no record, if there are any.
func (p *program) tellStaying(r redrive.Report) error {
	if r.Refused > 0 {
		fmt.Fprintf(p.stderr, "%d letters stay: change the configuration of their topics, then bring each back with \"consumer dlq redrive --letter\" and its place.\n", r.Refused)
	}
	if r.Refused > 0 || r.Strays > 0 {
		return errFound
	}
	return nil
}

// mostStrays is how many letters that are of no record are named.
const mostStrays = 3

// strays are letters that are not of the records that they name: the first of them, and how many there are.
type strays struct {
	first []string
	count int
}

func (s *strays) add(one redrive.Stray) {
	if s.count++; s.count <= mostStrays {
		s.first = append(s.first, fmt.Sprintf("%s (%s)", one.Place, one.Wrong))
	}
}

// tell says it in one line.
func (s *strays) tell(w io.Writer) {
	if s.count == 0 {
		return
	}
	list := text.Printable(strings.Join(s.first, ", "))
	if more := s.count - len(s.first); more > 0 {
		list = fmt.Sprintf("%s and %d more", list, more)
	}
	fmt.Fprintf(w, "Not of the records that they name: %s. These letters stay: see who may write to the dead-letter topic; \"consumer dlq redrive --letter\" brings one back that is right all the same.\n", list)
}
