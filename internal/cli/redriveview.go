package cli

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"waterwheel/dlq/redrive"
	"waterwheel/internal/cli/text"
	"waterwheel/internal/words"
)

// RedriveView is what dlq redrive prints as JSON.
type RedriveView struct {
	Group  string `json:"group"`
	DryRun bool   `json:"dryRun"`
	Letter string `json:"letter,omitempty"` // the place of the one that --letter names
	redrive.Report
}

func showRedrive(show shower, o redrive.Options, group string, r redrive.Report) error {
	if r.Reasons == nil {
		r.Reasons = map[string]int64{}
	}
	return show(RedriveView{Group: group, DryRun: o.DryRun, Report: r}, func(w io.Writer) { printReport(w, o, group, r) })
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
		table.Row(r.Gone, words.Form(r.Gone, "of these is of a record that its topic has no more, whose key could not be compared",
			"of these are of records that their topics have no more, whose keys could not be compared"))
	}
	if o.DryRun && r.Driven > 0 {
		again := text.Sum(r.Again)
		table.Row(again, "of these would become "+words.Form(again, "a letter", "letters")+" again, by the present settings (what MongoDB refuses is not asked)")
		reasons(r.Again)
	}
	attempts := words.Count(o.Selection.MaxAttempts, "time") + " or more (--max-attempts)"
	for _, one := range []struct {
		count    int64
		one, all string
	}{
		{r.Arrived, "had arrived already when a former run was cut off", ""},
		{r.Refused, "stays: its topic does not take it; it is named above", "stay: their topics do not take them; each is named above"},
		{r.Doubles, "double, or driven by another selection", "doubles, or driven by another selection"},
		{r.Exhausted, "stays: tried " + attempts, "stay: tried " + attempts},
		{
			r.Cut, "stays: too long for the dead-letter topic, a part of its value is lost; only its source topic may still have it (dlq show)",
			"stay: too long for the dead-letter topic, a part of their value is lost; only their source topic may still have them (dlq show)",
		},
		{r.Strays, "stays: it is not of the record that it names, as is said above", "stay: they are not of the records that they name, as is said above"},
		{r.Others, "is no letter", "are no letters"},
		{r.Unselected, "not selected", ""},
		{r.Total - r.Read, "not looked at yet", ""},
	} {
		if one.count > 0 {
			table.Row(one.count, words.Form(one.count, one.one, cmp.Or(one.all, one.one)))
		}
	}
	table.Flush()
	if group != "" {
		fmt.Fprintf(w, "progress is kept by the consumer group %s\n", group)
	}
}

// nameRefused says that a letter stays.
func (p *Program) nameRefused(r redrive.Refusal) {
	fmt.Fprintf(p.Stderr, "The letter %s stays: %s does not take it: %v\n", r.Place, r.To, r.Err)
}

// tellStaying says what to do about letters that were refused or are of no record, if there are any.
func (p *Program) tellStaying(r redrive.Report) error {
	if r.Refused > 0 {
		fmt.Fprintf(p.Stderr, "%s %s: change the configuration of their topics, then bring each back with \"waterwheel dlq redrive --letter\" and its place.\n",
			words.Count(r.Refused, "letter"), words.Form(r.Refused, "stays", "stay"))
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
	fmt.Fprintf(w, "Not of the records that they name: %s. These letters stay: see who may write to the dead-letter topic; \"waterwheel dlq redrive --letter\" brings one back that is right all the same.\n", list)
}
