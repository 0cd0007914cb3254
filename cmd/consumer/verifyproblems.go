package main

import (
	"fmt"
	"io"
	"strings"

	"waterwheel/cmd/consumer/internal/text"
	"waterwheel/verify"
)

// printProblems says of each problem where it is first, and what to do about the group's offsets.
func printProblems(w io.Writer, p *verify.Report, name, group string) {
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
		if p.Repair.Repaired+p.Repair.Planned == 0 {
			fmt.Fprintf(w, "  See with --dry-run what a repair would do, then use --repair.\n")
		}
	}
	if n := p.Unknown.Count; n > 0 {
		fmt.Fprintf(w, "%s: %d unknown: listed by buckets, but the record in the log has no such measurement: offsets %s.\n"+
			"  The present EVENT_ settings may refuse the record, or read other measurements from it. Otherwise something else wrote\n"+
			"  these buckets.\n", name, n, formatPlaces(&p.Unknown))
	}
	if n := p.LetterMissing.Count; n > 0 {
		fmt.Fprintf(w, "%s: %d without a letter: they cannot be decoded and are not in the dead-letter topic: offsets %s.\n"+
			"  Look whether the topic's retention has deleted letters. Read again they become letters again.\n", name, n, formatPlaces(&p.LetterMissing))
	}
	if n := p.LetterDeleted.Count; n > 0 {
		fmt.Fprintf(w, "%s: note: %d cannot be decoded, and their letters may have been deleted: offsets %s.\n", name, n, formatPlaces(&p.LetterDeleted))
	}
	printFaults(w, name+": damaged: ", &p.Damaged)
	printFaults(w, name+": different: ", &p.Different)
	if p.Damaged.Count > 0 {
		fmt.Fprintf(w, "  A damaged bucket is no longer written to. Repair it by hand, or delete it and set the group's offset back: what only\n"+
			"  it held is then stored again.\n")
	}
}

// printDeletedLetters says what cannot be told, where it matters.
func (v *verifyView) printDeletedLetters(w io.Writer) {
	all := v.all()
	if all.LetterDeleted.Count+all.Missing.Count == 0 {
		return
	}
	for _, d := range v.DeletedLetters {
		fmt.Fprintf(w, "Letters before offset %d of %s were deleted. Records whose letters they were cannot be told from records whose\n"+
			"letter is lost; those that MongoDB refused count as missing.\n", d.Before, d.Place)
	}
}

func printFaults(w io.Writer, what string, faults *verify.Faults) {
	for _, f := range faults.First {
		line := what + "bucket " + f.Bucket
		if f.Path != "" {
			line += ", " + f.Path
		}
		if f.Position != nil {
			line += fmt.Sprintf(" (offset %s)", formatPlace(*f.Position))
		}
		fmt.Fprintln(w, text.Printable(line+": "+f.Text)+".")
	}
	if more := faults.Count - int64(len(faults.First)); more > 0 {
		fmt.Fprintf(w, "%sand %d more.\n", what, more)
	}
}

// printRepair says what was, or would be, done about doubles.
func printRepair(w io.Writer, r *verify.Repairs, name string) {
	verb, done := "would be", r.Planned
	if r.Planned == 0 {
		verb, done = "were", r.Repaired
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
