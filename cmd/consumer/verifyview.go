package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"waterwheel/verify"
)

// verifyView is what verify prints.
type verifyView struct {
	Topic      string             `json:"topic"`
	Group      string             `json:"group"`
	Content    bool               `json:"content"`
	Repair     bool               `json:"repair"`
	Wrong      bool               `json:"wrong"`
	Partitions []PartitionVerdict `json:"partitions"`
	// Rest are the partitions that were not begun because of an error.
	Rest []Resume `json:"rest,omitempty"`
}

// PartitionVerdict is what was found out about one partition.
type PartitionVerdict struct {
	verify.Report
	// Notes say why the range is not the one that was asked for.
	Notes []string `json:"notes,omitempty"`
}

// Resume is where to go on with a partition.
type Resume struct {
	Partition int32 `json:"partition"`
	From      int64 `json:"from"`
}

func (v *verifyView) add(p PartitionVerdict) {
	v.Partitions = append(v.Partitions, p)
	v.Wrong = v.Wrong || p.Wrong()
}

func (v *verifyView) print(w io.Writer, o verifyOptions) error {
	if o.output == "json" {
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "  ")
		return encoder.Encode(v)
	}
	v.printTable(w)
	for i := range v.Partitions {
		p := &v.Partitions[i]
		name := fmt.Sprintf("%s/%d", v.Topic, p.Partition)
		for _, note := range p.Notes {
			fmt.Fprintf(w, "%s: note: %s.\n", name, note)
		}
		if p.Removed > 0 {
			fmt.Fprintf(w, "%s: note: retention removed %d offsets meanwhile: they were not verified.\n", name, p.Removed)
		}
		p.printProblems(w, name, v.Group)
		p.printRepair(w, name)
	}
	v.printResume(w, o)
	_, err := fmt.Fprintln(w, v.summary())
	return err
}

func (v *verifyView) printTable(w io.Writer) {
	t := newTable(w)
	fmt.Fprint(t, "PARTITION\tOFFSETS\tRECORDS\tMEASUREMENTS\tSTORED ONCE\tDEAD-LETTERED\tEXPIRED\tMISSING\tDOUBLED\tUNKNOWN\tLETTER MISSING\tDAMAGED BUCKETS")
	if v.Content {
		fmt.Fprint(t, "\tDIFFERENT")
	}
	fmt.Fprintln(t)
	for i := range v.Partitions {
		p := &v.Partitions[i]
		fmt.Fprintf(t, "%d\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d", p.Partition, formatRange(p.From, p.Next), p.Records, p.Valid,
			p.StoredOnce, p.DeadLettered, p.Expired, p.Missing.Count, p.Doubled.Count, p.Unknown.Count, p.LetterMissing.Count, p.Damaged.Count)
		if v.Content {
			fmt.Fprintf(t, "\t%d", p.Different.Count)
		}
		fmt.Fprintln(t)
	}
	_ = t.Flush() // an error of writing comes again with the last line
}

// formatRange shows the offsets in [from, to).
func formatRange(from, to int64) string {
	if from >= to {
		return "none"
	}
	return fmt.Sprintf("%d–%d", from, to-1)
}

// printProblems says of each problem where it is first, and what to do about the group's offsets.
func (p *PartitionVerdict) printProblems(w io.Writer, name, group string) {
	if n := p.Missing.Count; n > 0 {
		fmt.Fprintf(w, "%s: %d missing: in the log, but neither stored nor a dead letter: offsets %s.\n", name, n, formatPlaces(&p.Missing))
		first := p.Missing.First[0].Offset
		if p.FirstStored < 0 || first < p.FirstStored {
			fmt.Fprintf(w, "  Nothing is stored before the first of them. If the group began later (KAFKA_START), verify from there: --from.\n")
		}
		fmt.Fprintf(w, "  To store what is missing, stop the group and set its offset back; what is stored already is skipped:\n"+
			"  kafka-consumer-groups.sh --bootstrap-server $KAFKA_BROKERS --group %s --topic %s --reset-offsets --to-offset %d --execute\n",
			group, strings.Replace(name, "/", ":", 1), first)
	}
	if n := p.Doubled.Count; n > 0 {
		fmt.Fprintf(w, "%s: %d doubled: listed by more than one bucket: offsets %s.\n", name, n, formatPlaces(&p.Doubled))
		if p.Repair.Mended+p.Repair.Planned == 0 {
			fmt.Fprintf(w, "  See with --dry-run what a repair would do, then use --repair.\n")
		}
	}
	if n := p.Unknown.Count; n > 0 {
		fmt.Fprintf(w, "%s: %d unknown: listed by buckets, but the log has no measurement there: offsets %s.\n"+
			"  That is so of records that were compacted away, and of records that the present EVENT_ settings refuse. Otherwise\n"+
			"  something else wrote these buckets.\n", name, n, formatPlaces(&p.Unknown))
	}
	if n := p.LetterMissing.Count; n > 0 {
		fmt.Fprintf(w, "%s: %d without a letter: they cannot be decoded and are not in the dead-letter topic: offsets %s.\n"+
			"  Look whether the topic's retention has deleted letters. Read again they become letters again.\n", name, n, formatPlaces(&p.LetterMissing))
	}
	printFaults(w, name+": damaged: ", &p.Damaged)
	printFaults(w, name+": different: ", &p.Different)
	if p.Damaged.Count > 0 {
		fmt.Fprintf(w, "  A damaged bucket is no longer written to. Mend it by hand, or delete it and set the group's offset back: what only\n"+
			"  it held is then stored again.\n")
	}
}

func printFaults(w io.Writer, what string, faults *verify.Faults) {
	for _, f := range faults.First {
		text := what + "bucket " + f.Bucket
		if f.Path != "" {
			text += ", " + f.Path
		}
		if f.Position != nil {
			text += fmt.Sprintf(" (offset %s)", formatPlace(*f.Position))
		}
		fmt.Fprintln(w, printable(text+": "+f.Text)+".")
	}
	if more := faults.Count - int64(len(faults.First)); more > 0 {
		fmt.Fprintf(w, "%sand %d more.\n", what, more)
	}
}

// printRepair says what was, or would be, done about doubles.
func (p *PartitionVerdict) printRepair(w io.Writer, name string) {
	r := &p.Repair
	verb, done := "would be", r.Planned
	if r.Planned == 0 {
		verb, done = "were", r.Mended
	}
	if r.Copies > 0 {
		fmt.Fprintf(w, "%s: repair: %d copies %s taken out, so that %d measurements are stored once: %d buckets changed and closed, %d deleted.\n",
			name, r.Copies, verb, done, r.Updated, r.Deleted)
	}
	for _, c := range r.First {
		fate := fmt.Sprintf("%d stay", c.Kept)
		if c.Kept == 0 {
			fate = "deleted"
		}
		fmt.Fprintf(w, "  bucket %s: %d out, %s.\n", c.Bucket, c.Removed, fate)
	}
	if more := r.Updated + r.Deleted - int64(len(r.First)); more > 0 {
		fmt.Fprintf(w, "  and %d buckets more.\n", more)
	}
	printFaults(w, name+": not repaired: ", &r.Left)
}

// printResume says how to go on with what is not judged.
func (v *verifyView) printResume(w io.Writer, o verifyOptions) {
	rest := v.Rest
	if n := len(v.Partitions); n > 0 && v.Partitions[n-1].Next < v.Partitions[n-1].To {
		last := &v.Partitions[n-1]
		rest = append([]Resume{{Partition: last.Partition, From: last.Next}}, rest...)
	}
	if len(rest) == 0 {
		return
	}
	fmt.Fprintln(w, "Not all was verified. Go on with:")
	for _, r := range rest {
		fmt.Fprintf(w, "  consumer verify --topic %s --partition %d --from %d%s\n", v.Topic, r.Partition, r.From, o.flags())
	}
}

// flags are those of the command line that say how to verify.
func (o *verifyOptions) flags() string {
	var flags string
	if o.to != "" {
		flags += " --to " + o.to
	}
	if o.content {
		flags += " --content"
	}
	switch o.mode() {
	case verify.DryRun:
		flags += " --dry-run"
	case verify.Mend:
		flags += " --repair"
	}
	return flags
}

// summary is the last line.
func (v *verifyView) summary() string {
	var all verify.Findings
	for i := range v.Partitions {
		all.Add(&v.Partitions[i].Findings, 0)
	}
	counts := fmt.Sprintf("%d measurements of %s: %d stored once, %d dead-lettered, %d expired, %d missing, %d doubled, %d unknown, "+
		"%d letters missing, %d damaged buckets", all.Valid, v.Topic, all.StoredOnce+all.Repair.Mended, all.DeadLettered, all.Expired,
		all.Missing.Count, all.Doubled.Count-all.Repair.Mended, all.Unknown.Count, all.LetterMissing.Count, all.Damaged.Count)
	if v.Content {
		counts += fmt.Sprintf(", %d different", all.Different.Count)
	}
	return "verified " + counts
}

// formatPlaces lists the first places of a finding.
func formatPlaces(t *verify.Tally) string {
	places := make([]string, len(t.First))
	for i, p := range t.First {
		places[i] = formatPlace(p)
	}
	text := strings.Join(places, ", ")
	if t.Count > int64(len(t.First)) {
		text += ", …"
	}
	return text
}

// formatPlace is an offset, with the index of an element of an array record that is not its first.
func formatPlace(p verify.Place) string {
	if p.Part == 0 {
		return fmt.Sprint(p.Offset)
	}
	return fmt.Sprintf("%d[%d]", p.Offset, p.Part)
}
