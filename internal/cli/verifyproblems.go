package cli

import (
	"fmt"
	"io"
	"strings"

	"waterwheel/internal/cli/text"
	"waterwheel/internal/verify"
	"waterwheel/internal/words"
)

// printProblems says of each problem where it is first, and what to do about the group's offsets.
func printProblems(w io.Writer, p *verify.Report, name, group string) {
	if n := p.Missing.Count; n > 0 {
		fmt.Fprintf(w, "%s: %d missing: in the log, but neither stored nor a dead letter: %s.\n", name, n, formatPlaces(&p.Missing))
		first := p.Missing.First[0].Offset
		if p.FirstStored < 0 || first < p.FirstStored {
			fmt.Fprintf(w, "  Nothing is stored before the first of them. If the group began later (KAFKA_START), verify from there: --from.\n")
		}
		fmt.Fprintf(w, "  To store what is missing, stop the group and set its offset back; what is stored already is skipped:\n"+
			"  kafka-consumer-groups.sh --bootstrap-server $KAFKA_BROKERS --group %s --topic %s --reset-offsets --to-offset %d --execute\n",
			group, strings.Replace(name, "/", ":", 1), first)
	}
	if n := p.Doubled.Count; n > 0 {
		fmt.Fprintf(w, "%s: %d doubled: listed by more than one bucket: %s.\n", name, n, formatPlaces(&p.Doubled))
		if p.Repair.Repaired+p.Repair.Planned == 0 {
			fmt.Fprintf(w, "  See with --dry-run what a repair would do, then use --repair --yes.\n")
		}
	}
	if n := p.Unknown.Count; n > 0 {
		fmt.Fprintf(w, "%s: %d unknown: listed by buckets, but the record in the log has no such measurement: %s.\n"+
			"  The present EVENT_ settings may refuse the record, or read other measurements from it. Otherwise something else wrote\n"+
			"  these buckets.\n", name, n, formatPlaces(&p.Unknown))
	}
	if n := p.LetterMissing.Count; n > 0 {
		fmt.Fprintf(w, "%s: %d without a letter: %s not in the dead-letter topic: %s.\n"+
			"  Look whether the topic's retention has deleted letters. Read again they become letters again.\n", name, n, words.Form(n, "it cannot be decoded and is", "they cannot be decoded and are"), formatPlaces(&p.LetterMissing))
	}
	if n := p.LetterDeleted.Count; n > 0 {
		fmt.Fprintf(w, "%s: note: %d cannot be decoded, and %s may have been deleted: %s.\n", name, n,
			words.Form(n, "its letter", "their letters"), formatPlaces(&p.LetterDeleted))
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
		verb, done = words.Form(r.Copies, "was", "were"), r.Repaired
	}
	if r.Copies > 0 {
		fmt.Fprintf(w, "%s: repair: %s %s taken out, so that %s %s stored once: %s changed and closed, %d deleted.\n",
			name, words.Count(r.Copies, "copy"), verb, words.Count(done, "measurement"), words.Form(done, "is", "are"), words.Count(r.Updated, "bucket"), r.Deleted)
	}
	for _, c := range r.First {
		fate := fmt.Sprintf("%d %s", c.Kept, words.Form(c.Kept, "stays", "stay"))
		if c.Kept == 0 {
			fate = "deleted"
		}
		fmt.Fprintf(w, "  bucket %s: %d out, %s.\n", c.Bucket, c.Removed, fate)
	}
	if more := r.Updated + r.Deleted - int64(len(r.First)); more > 0 {
		fmt.Fprintf(w, "  and %s more.\n", words.Count(more, "bucket"))
	}
	printFaults(w, name+": not repaired: ", &r.Left)
}
