package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"waterwheel/internal/cli/text"
	"waterwheel/internal/timeseries"
	"waterwheel/internal/verify"
	"waterwheel/internal/words"
)

// verifyView is the output of verify.
type verifyView struct {
	Topic      string          `json:"topic"`
	Group      string          `json:"group"`
	Content    bool            `json:"content"`
	Repair     bool            `json:"repair"`
	Wrong      bool            `json:"wrong"`
	Partitions []verify.Report `json:"partitions"`
	// DeletedDeadLetters are reasons why letters may be missing.
	DeletedDeadLetters []deletedDeadLetters `json:"deletedDeadLetters,omitempty"`
	// Rest are the partitions that were not started because of an error.
	Rest []resume `json:"rest,omitempty"`
}

// resume is where to continue with a partition.
type resume struct {
	Partition int32 `json:"partition"`
	From      int64 `json:"from"`
}

func (v *verifyView) add(p verify.Report) {
	v.Partitions = append(v.Partitions, p)
	v.Wrong = v.Wrong || p.Wrong()
}

func (v *verifyView) print(w io.Writer, o verifyOptions) {
	v.printTable(w)
	for i := range v.Partitions {
		p := &v.Partitions[i]
		name := fmt.Sprintf("%s/%d", v.Topic, p.Partition)
		for _, note := range p.Notes {
			fmt.Fprintf(w, "%s: note: %s.\n", name, note)
		}
		if p.Removed > 0 {
			fmt.Fprintf(w, "%s: note: retention removed %s meanwhile, which %s not verified.\n", name, words.Count(p.Removed, "offset"), words.Form(p.Removed, "was", "were"))
		}
		printLost(w, &p.Lost, name)
		printProblems(w, p, name, v.Group)
		printRepair(w, &p.Repair, name)
	}
	v.printDeletedDeadLetters(w)
	v.printResume(w, o)
	fmt.Fprintln(w, v.summary())
}

func (v *verifyView) printTable(w io.Writer) {
	titles := []string{
		"PARTITION", "OFFSETS", "RECORDS", "MEASUREMENTS", "STORED ONCE", "DEAD-LETTERED", "EXPIRED", "MISSING", "DOUBLED", "UNKNOWN",
		"DEAD LETTER MISSING", "DAMAGED BUCKETS",
	}
	if v.Content {
		titles = append(titles, "DIFFERENT")
	}
	harmless := v.harmless()
	for _, one := range harmless {
		titles = append(titles, one.title)
	}
	t := text.NewTable(w, titles...)
	for i := range v.Partitions {
		p := &v.Partitions[i]
		row := []any{
			p.Partition, formatRange(p.From, p.Next), p.Records, p.Valid, p.StoredOnce, p.DeadLettered, p.Expired, p.Missing.Count,
			p.Doubled.Count, p.Unknown.Count, p.DeadLetterMissing.Count, p.Damaged.Count,
		}
		if v.Content {
			row = append(row, p.Different.Count)
		}
		for _, one := range harmless {
			row = append(row, one.of(&p.Findings).Count)
		}
		t.Row(row...)
	}
	t.Flush()
}

// harmless is a finding that is not wrong. It is reported if it occurs.
type harmless struct {
	title, name string
	of          func(f *verify.Findings) *verify.Tally
}

// harmless returns the harmless findings that occur.
func (v *verifyView) harmless() []harmless {
	all := v.all()
	return slices.DeleteFunc([]harmless{
		{"DELETED", "deleted", func(f *verify.Findings) *verify.Tally { return &f.Deleted }},
		{"COMPACTED", "compacted", func(f *verify.Findings) *verify.Tally { return &f.Compacted }},
		{"META CHANGED", "metas changed", func(f *verify.Findings) *verify.Tally { return &f.MetaChanged }},
		{"DEAD LETTER PERHAPS DELETED", "dead letters perhaps deleted", func(f *verify.Findings) *verify.Tally { return &f.DeadLetterDeleted }},
	}, func(one harmless) bool { return one.of(&all).Count == 0 })
}

// formatRange formats the offsets in [from, to).
func formatRange(from, to int64) string {
	if from >= to {
		return "none"
	}
	return fmt.Sprintf("%d–%d", from, to-1)
}

// printResume prints how to verify the rest.
func (v *verifyView) printResume(w io.Writer, o verifyOptions) {
	rest := v.Rest
	if n := len(v.Partitions); n > 0 && v.Partitions[n-1].Next < v.Partitions[n-1].To {
		last := &v.Partitions[n-1]
		rest = append([]resume{{Partition: last.Partition, From: last.Next}}, rest...)
	}
	if len(rest) == 0 {
		return
	}
	fmt.Fprintln(w, "Not everything was verified. Continue with:")
	for _, r := range rest {
		fmt.Fprintf(w, "  waterwheel verify --topic %s --partition %d --from %d%s\n", v.Topic, r.Partition, r.From, o.flags())
	}
}

// flags returns the flags of the command line that control the verification.
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
	case verify.Repair:
		flags += " --repair --yes"
	}
	return flags
}

// all returns the findings about all partitions, without examples.
func (v *verifyView) all() (all verify.Findings) {
	for i := range v.Partitions {
		all.Add(&v.Partitions[i].Findings, 0)
	}
	return all
}

// summary returns the last line.
func (v *verifyView) summary() string {
	all := v.all()
	counts := fmt.Sprintf("%s of %s: %d stored once, %d dead-lettered, %d expired, %d missing, %d doubled, %d unknown, "+
		"%s missing, %s", words.Count(all.Valid, "measurement"), v.Topic, all.StoredOnce+all.Repair.Repaired, all.DeadLettered, all.Expired,
		all.Missing.Count, all.Doubled.Count-all.Repair.Repaired, all.Unknown.Count,
		words.Count(all.DeadLetterMissing.Count, "dead letter"), words.Count(all.Damaged.Count, "damaged bucket"))
	if v.Content {
		counts += fmt.Sprintf(", %d different", all.Different.Count)
	}
	for _, one := range v.harmless() {
		counts += fmt.Sprintf(", %d %s", one.of(&all).Count, one.name)
	}
	if lost := v.lost(); lost > 0 {
		counts += ", " + words.Count(lost, "offset") + " lost to retention"
	}
	return "verified " + counts
}

// lost returns how many offsets retention removed before they were read.
func (v *verifyView) lost() (count int64) {
	for i := range v.Partitions {
		count += v.Partitions[i].Lost.Count
	}
	return count
}

// printLost prints what retention removed, and how to exclude it.
func printLost(w io.Writer, l *verify.Lost, name string) {
	if l.Count == 0 {
		return
	}
	ranges := make([]string, len(l.First))
	for i, r := range l.First {
		ranges[i] = formatRange(r.From, r.To)
	}
	fmt.Fprintf(w, "%s: lost: retention deleted %s before %s read, and nothing of %s is stored: %s (--from excludes earlier offsets).\n",
		name, words.Count(l.Count, "offset"), words.Form(l.Count, "it was", "they were"), words.Form(l.Count, "it", "them"), text.List(ranges))
}

// formatPlaces lists the first places of a finding.
func formatPlaces(t *verify.Tally) string {
	places := make([]string, len(t.First))
	for i, p := range t.First {
		places[i] = formatPlace(p)
	}
	list := strings.Join(places, ", ")
	if t.Count > int64(len(t.First)) {
		list += ", …"
	}
	return words.Form(t.Count, "offset ", "offsets ") + list
}

// formatPlace formats an offset. It adds the index of an element of an array record, unless it is the first.
func formatPlace(p timeseries.Position) string {
	if p.Part == 0 {
		return fmt.Sprint(p.Offset)
	}
	return fmt.Sprintf("%d[%d]", p.Offset, p.Part)
}

// printProblems prints where each problem occurs first, and what to do about the group's offsets.
func printProblems(w io.Writer, p *verify.Report, name, group string) {
	if n := p.Missing.Count; n > 0 {
		fmt.Fprintf(w, "%s: %d missing: in Kafka, but neither stored nor a dead letter: %s.\n", name, n, formatPlaces(&p.Missing))
		first := p.Missing.First[0].Offset
		if p.FirstStored < 0 || first < p.FirstStored {
			fmt.Fprintf(w, "  Nothing is stored before the first of them. If the group began later (KAFKA_START), verify from there: --from.\n")
		}
		fmt.Fprintf(w, "  To store missing records, stop the group and set its offset back; stored ones are skipped:\n"+
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
			"  The current EVENT_ settings may refuse the record, or read other measurements from it. Otherwise another program\n"+
			"  wrote these buckets.\n", name, n, formatPlaces(&p.Unknown))
	}
	if n := p.DeadLetterMissing.Count; n > 0 {
		fmt.Fprintf(w, "%s: %d without a dead letter: %s not in the dead-letter topic: %s.\n"+
			"  Check whether the topic's retention has deleted dead letters. Records that are read again become dead letters again.\n", name, n, words.Form(n, "it cannot be decoded and is", "they cannot be decoded and are"), formatPlaces(&p.DeadLetterMissing))
	}
	if n := p.DeadLetterDeleted.Count; n > 0 {
		fmt.Fprintf(w, "%s: note: %d cannot be decoded, and %s may have been deleted: %s.\n", name, n,
			words.Form(n, "its dead letter", "their dead letters"), formatPlaces(&p.DeadLetterDeleted))
	}
	printFaults(w, name+": damaged: ", &p.Damaged)
	printFaults(w, name+": different: ", &p.Different)
	if p.Damaged.Count > 0 {
		fmt.Fprintf(w, "  Consumers no longer write to a damaged bucket. Repair it by hand. If that is impossible, delete it and set the group's offset back:\n"+
			"  measurements that were only in this bucket are then stored again.\n")
	}
}

// printDeletedDeadLetters warns of deleted letters if the result depends on them.
func (v *verifyView) printDeletedDeadLetters(w io.Writer) {
	all := v.all()
	if all.DeadLetterDeleted.Count+all.Missing.Count == 0 {
		return
	}
	for _, d := range v.DeletedDeadLetters {
		fmt.Fprintf(w, "Dead letters before offset %d of %s were deleted. A record whose dead letter was deleted cannot be distinguished from\n"+
			"a record whose dead letter is lost. If MongoDB refused such a record, it counts as missing.\n", d.Before, d.Place)
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

// printRepair prints which doubled measurements were removed, or would be.
func printRepair(w io.Writer, r *verify.Repairs, name string) {
	verb, done := "would be", r.Planned
	if r.Planned == 0 {
		verb, done = words.Form(r.Copies, "was", "were"), r.Repaired
	}
	if r.Copies > 0 {
		fmt.Fprintf(w, "%s: repair: %s %s removed, so that %s %s stored once: %s changed and closed, %d deleted.\n",
			name, words.Count(r.Copies, "copy"), verb, words.Count(done, "measurement"), words.Form(done, "is", "are"), words.Count(r.Updated, "bucket"), r.Deleted)
	}
	for _, c := range r.First {
		fate := fmt.Sprintf("%d %s", c.Kept, words.Form(c.Kept, "stays", "stay"))
		if c.Kept == 0 {
			fate = "deleted"
		}
		fmt.Fprintf(w, "  bucket %s: %d removed, %s.\n", c.Bucket, c.Removed, fate)
	}
	if more := r.Updated + r.Deleted - int64(len(r.First)); more > 0 {
		fmt.Fprintf(w, "  and %s more.\n", words.Count(more, "bucket"))
	}
	printFaults(w, name+": not repaired: ", &r.Left)
}
