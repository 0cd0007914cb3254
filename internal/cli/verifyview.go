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

// verifyView is what verify prints.
type verifyView struct {
	Topic      string          `json:"topic"`
	Group      string          `json:"group"`
	Content    bool            `json:"content"`
	Repair     bool            `json:"repair"`
	Wrong      bool            `json:"wrong"`
	Partitions []verify.Report `json:"partitions"`
	// DeletedLetters are why letters may be missing.
	DeletedLetters []DeletedLetters `json:"deletedLetters,omitempty"`
	// Rest are the partitions that were not begun because of an error.
	Rest []Resume `json:"rest,omitempty"`
}

// Resume is where to go on with a partition.
type Resume struct {
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
	v.printDeletedLetters(w)
	v.printResume(w, o)
	fmt.Fprintln(w, v.summary())
}

func (v *verifyView) printTable(w io.Writer) {
	titles := []string{
		"PARTITION", "OFFSETS", "RECORDS", "MEASUREMENTS", "STORED ONCE", "DEAD-LETTERED", "EXPIRED", "MISSING", "DOUBLED", "UNKNOWN",
		"LETTER MISSING", "DAMAGED BUCKETS",
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
			p.Doubled.Count, p.Unknown.Count, p.LetterMissing.Count, p.Damaged.Count,
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

// harmless is a finding that is not wrong, and told where there is any.
type harmless struct {
	title, name string
	of          func(f *verify.Findings) *verify.Tally
}

// harmless are those that there are.
func (v *verifyView) harmless() []harmless {
	all := v.all()
	return slices.DeleteFunc([]harmless{
		{"DELETED", "deleted", func(f *verify.Findings) *verify.Tally { return &f.Deleted }},
		{"COMPACTED", "compacted", func(f *verify.Findings) *verify.Tally { return &f.Compacted }},
		{"META CHANGED", "metas changed", func(f *verify.Findings) *verify.Tally { return &f.MetaChanged }},
		{"LETTER PERHAPS DELETED", "letters perhaps deleted", func(f *verify.Findings) *verify.Tally { return &f.LetterDeleted }},
	}, func(one harmless) bool { return one.of(&all).Count == 0 })
}

// formatRange shows the offsets in [from, to).
func formatRange(from, to int64) string {
	if from >= to {
		return "none"
	}
	return fmt.Sprintf("%d–%d", from, to-1)
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
		fmt.Fprintf(w, "  waterwheel verify --topic %s --partition %d --from %d%s\n", v.Topic, r.Partition, r.From, o.flags())
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
	case verify.Repair:
		flags += " --repair --yes"
	}
	return flags
}

// all are the findings about all partitions, without examples.
func (v *verifyView) all() (all verify.Findings) {
	for i := range v.Partitions {
		all.Add(&v.Partitions[i].Findings, 0)
	}
	return all
}

// summary is the last line.
func (v *verifyView) summary() string {
	all := v.all()
	counts := fmt.Sprintf("%s of %s: %d stored once, %d dead-lettered, %d expired, %d missing, %d doubled, %d unknown, "+
		"%s missing, %s", words.Count(all.Valid, "measurement"), v.Topic, all.StoredOnce+all.Repair.Repaired, all.DeadLettered, all.Expired,
		all.Missing.Count, all.Doubled.Count-all.Repair.Repaired, all.Unknown.Count,
		words.Count(all.LetterMissing.Count, "letter"), words.Count(all.Damaged.Count, "damaged bucket"))
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

// lost is how many offsets retention took before they were read.
func (v *verifyView) lost() (count int64) {
	for i := range v.Partitions {
		count += v.Partitions[i].Lost.Count
	}
	return count
}

// printLost says what retention took, and how to leave it out.
func printLost(w io.Writer, l *verify.Lost, name string) {
	if l.Count == 0 {
		return
	}
	ranges := make([]string, len(l.First))
	for i, r := range l.First {
		ranges[i] = formatRange(r.From, r.To)
	}
	fmt.Fprintf(w, "%s: lost: retention deleted %s before %s read, and nothing of %s is stored: %s (--from leaves out what is below it).\n",
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

// formatPlace is an offset, with the index of an element of an array record that is not its first.
func formatPlace(p timeseries.Position) string {
	if p.Part == 0 {
		return fmt.Sprint(p.Offset)
	}
	return fmt.Sprintf("%d[%d]", p.Offset, p.Part)
}
