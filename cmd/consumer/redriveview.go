package main

import (
	"fmt"
	"io"

	"waterwheel/dlq"
)

// RedriveView is what dlq redrive prints as JSON.
type RedriveView struct {
	Group  string `json:"group"`
	DryRun bool   `json:"dryRun"`
	dlq.Report
}

func (p *program) printRedrive(o redriveOptions, group string, r dlq.Report) error {
	if o.output == "json" {
		if r.Reasons == nil {
			r.Reasons = map[string]int64{}
		}
		return writeJSON(p.stdout, RedriveView{group, o.dryRun, r})
	}
	return printReport(p.stdout, o, group, r)
}

func printReport(w io.Writer, o redriveOptions, group string, r dlq.Report) error {
	table := newTable(w)
	verb := "driven back"
	if o.dryRun {
		verb = "would be driven back"
	}
	fmt.Fprintf(table, "%d\t%s\n", r.Driven, verb)
	for _, reason := range byCount(r.Reasons) {
		fmt.Fprintf(table, "\t  %s: %d\n", printable(reason), r.Reasons[reason])
	}
	if r.Gone > 0 {
		fmt.Fprintf(table, "%d\tof these are of records that their topics have no more, whose keys could not be compared\n", r.Gone)
	}
	if o.dryRun && r.Driven > 0 {
		fmt.Fprintf(table, "%d\tof these would become letters again, by the present settings (what MongoDB refuses is not asked)\n", sum(r.Again))
		for _, reason := range byCount(r.Again) {
			fmt.Fprintf(table, "\t  %s: %d\n", printable(reason), r.Again[reason])
		}
	}
	for _, one := range []struct {
		count int64
		what  string
	}{
		{r.Arrived, "had arrived already when a former run was cut off"},
		{r.Refused, "stay: their topics do not take them; each is named above"},
		{r.Doubles, "doubles, or driven by another selection"},
		{r.Exhausted, fmt.Sprintf("stay: tried %d times or more (--max-attempts)", o.maxAttempts)},
		{r.Cut, "stay: too long for the dead-letter topic, a part of their value is lost; only their source topic may still have them (dlq show)"},
		{r.Strays, "stay: they are not of the records that they name, as is said above"},
		{r.Others, "are no letters"},
		{r.Unselected, "not selected"},
		{r.Total - r.Read, "not looked at yet"},
	} {
		if one.count > 0 {
			fmt.Fprintf(table, "%d\t%s\n", one.count, one.what)
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if group == "" {
		return nil
	}
	_, err := fmt.Fprintf(w, "progress is kept by the consumer group %s\n", group)
	return err
}
