package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"waterwheel/config"
	"waterwheel/dlq"
	"waterwheel/internal/cli/text"
	"waterwheel/internal/connect"
	"waterwheel/internal/kafka"
	"waterwheel/internal/measurement"
	"waterwheel/internal/record"
	"waterwheel/internal/words"
)

func (p *Program) dlqCommand() *cobra.Command {
	return family("dlq", "Show dead letters and redrive them",
		"Dead letters are the records that could not be stored. They are in the topic that DLQ_TOPIC names, with headers\n"+
			"that contain their source and the reason. The time of a letter is the time of its record.",
		p.dlqListCommand(), p.dlqShowCommand(), p.dlqStatsCommand(), p.dlqRedriveCommand())
}

// deadLetterFilter is a filter given by flags.
type deadLetterFilter struct {
	dlq.Filter
	from, to string
}

func (f *deadLetterFilter) flags(cmd *cobra.Command) {
	cmd.Flags().StringSliceVar(&f.Reasons, "reason", nil, "only dead letters with these reasons, comma-separated")
	cmd.Flags().StringSliceVar(&f.Topics, "topic", nil, "only dead letters from these topics of KAFKA_TOPICS, comma-separated")
	cmd.Flags().StringVar(&f.from, "from", "", "only records of this time or later: "+whenForms)
	cmd.Flags().StringVar(&f.to, "to", "", "only records before this time, in the same form as --from")
}

// read parses the flags.
func (f *deadLetterFilter) read(c config.Config) error {
	now := time.Now()
	err := checkReasons(f.Reasons)
	if err != nil {
		return err
	}
	if err = knownTopics(c, f.Topics...); err != nil {
		return err
	}
	if f.From, err = parseWhen("--from", f.from, now, time.UTC); err != nil {
		return err
	}
	f.To, err = parseWhen("--to", f.to, now, time.UTC)
	return err
}

// deadLetters are the dead-letter topics that exist, with the settings.
type deadLetters struct {
	*kafka.Scanner
	config config.Config
	log    *slog.Logger
	topics []string
}

// onDeadLetters makes cmd work on dead letters. prepare checks the flags against the settings, before anything is opened.
func (p *Program) onDeadLetters(cmd *cobra.Command, prepare func(config.Config) error, work func(ctx context.Context, from *deadLetters) error) *cobra.Command {
	p.outputFlag(cmd, "table")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, log, err := p.commandSettings(cmd.Context(), "warn")
		if err != nil {
			return err
		}
		if err := prepare(c); err != nil {
			return err
		}
		from, err := p.openDeadLetters(cmd.Context(), c, log)
		if err != nil {
			return err
		}
		defer from.Close()
		return work(cmd.Context(), from)
	}
	return cmd
}

// openDeadLetters connects for reading dead letters. The source topics of letters can be read too.
func (p *Program) openDeadLetters(ctx context.Context, c config.Config, log *slog.Logger) (*deadLetters, error) {
	if !c.HasDeadLetters() {
		return nil, usageError{fmt.Errorf("DLQ_TOPIC is empty: there are no dead letters, because a bad record stops its partition; set DLQ_TOPIC to use this command")}
	}
	o := connect.DeadLetterOptions(c)
	topics := o.Topics()
	reader, err := connect.OpenTopicLog(ctx, c, log, slices.Concat(topics, c.Kafka.Topics))
	if err != nil {
		return nil, err
	}
	missing, err := reader.Missing(ctx, topics...)
	if err != nil {
		reader.Close()
		return nil, err
	}
	for _, topic := range missing {
		fmt.Fprintf(p.Stderr, "The dead-letter topic %s does not exist (yet): it has no dead letters.\n", topic)
	}
	topics = slices.DeleteFunc(topics, func(t string) bool { return slices.Contains(missing, t) })
	return &deadLetters{reader, c, log, topics}, nil
}

// scanSelected calls each for every letter that the filter selects, and for every record that is not a letter (Found.Err is set).
// wrong is the error to return after everything is printed. It is set if a misspelt filter selects nothing.
func (p *Program) scanSelected(ctx context.Context, from *deadLetters, filter *dlq.Filter, each func(*dlq.Found) error) (wrong, err error) {
	seen, selected := map[string]int64{}, false
	err = p.scan(ctx, from, func(f *dlq.Found) error {
		if f.Err == nil {
			seen[f.Letter.Reason]++
			if !filter.Selects(&f.Letter) {
				return nil
			}
			selected = true
		}
		return each(f)
	})
	if err == nil {
		wrong = p.warnOfReasons(filter.Reasons, seen, selected)
	}
	return wrong, err
}

// scan calls each for every record of the dead-letter topics, and shows the progress.
func (p *Program) scan(ctx context.Context, from *deadLetters, each func(*dlq.Found) error) error {
	spans, err := dlq.Spans(ctx, from, from.topics)
	if err != nil {
		return err
	}
	line := p.progress("dead letters read")
	defer line.End()
	return scanSpans(ctx, from, spans, line, each)
}

// scanSpans calls each for every record of the spans, and updates the progress line.
func scanSpans(ctx context.Context, log dlq.Log, spans []dlq.Span, line *text.Progress, each func(*dlq.Found) error) error {
	done, total := int64(0), dlq.Offsets(spans)
	return dlq.Scan(ctx, log, spans, func(f *dlq.Found) error {
		done++
		line.At(done, total)
		return each(f)
	})
}

// checkReasons rejects a reason that is a misspelling of ours. Otherwise no letter would be found, which looks like good news.
func checkReasons(asked []string) error {
	known := reasonNames()
	for _, reason := range asked {
		if reason == "" {
			return usageError{fmt.Errorf("--reason is empty: give one or more of %s", strings.Join(known, ", "))}
		}
		if near := words.Near(reason, known); near != "" && !slices.Contains(known, reason) {
			return usageError{fmt.Errorf("--reason is %q: did you mean %s? The reasons are %s", reason, near, strings.Join(known, ", "))}
		}
	}
	return nil
}

func reasonNames() []string {
	var names []string
	for _, r := range measurement.Reasons() {
		names = append(names, string(r))
	}
	return names
}

// warnOfReasons warns of requested reasons that are not ours and that no letter has. A reason of letters by another program is no
// mistake. seen counts letters by reason. It returns an error if no letter is selected because of such a reason.
func (p *Program) warnOfReasons(asked []string, seen map[string]int64, selected bool) (wrong error) {
	for _, reason := range asked {
		if seen[reason] > 0 || slices.Contains(reasonNames(), reason) {
			continue
		}
		if !selected {
			wrong = usageError{errors.New("no dead letter is selected")}
		}
		fmt.Fprintf(p.Stderr, "No dead letter has the reason %q, and the program has no such reason. Its reasons: %s.\n", reason, strings.Join(reasonNames(), ", "))
	}
	return wrong
}

// DeadLetterRow is a letter in a list, without the record's contents.
type DeadLetterRow struct {
	// DeadLetter is its place in the dead-letter topic, and From is the place of its record: topic/partition/offset.
	DeadLetter string `json:"letter"`
	From       string `json:"from"`
	// Part is the index of the element in an array record. Nil means the whole record.
	Part    *int32    `json:"part,omitempty"`
	Time    time.Time `json:"time"`
	Reason  string    `json:"reason"`
	Message string    `json:"message"`
	Stage   string    `json:"stage,omitempty"`
	Attempt int       `json:"attempt"`
	// Cut says what the letter lost. Such a letter cannot be redriven.
	Cut   string `json:"cut,omitempty"`
	Bytes int    `json:"bytes"`
}

func newDeadLetterRow(f *dlq.Found) DeadLetterRow {
	l := &f.Letter
	row := DeadLetterRow{
		DeadLetter: f.Place.String(), From: l.Place.String(),
		Time: record.Time(l.Timestamp), Reason: l.Reason, Message: l.Message, Stage: f.Stage, Attempt: f.Attempt,
		Cut: l.Cut, Bytes: len(l.Value),
	}
	if l.Part != record.WholeRecord {
		row.Part = new(l.Part)
	}
	return row
}

// from returns the record's place, with the index of the element.
func (r *DeadLetterRow) from() string {
	if r.Part == nil {
		return r.From
	}
	return fmt.Sprintf("%s[%d]", r.From, *r.Part)
}

func (p *Program) dlqListCommand() *cobra.Command {
	var filter deadLetterFilter
	var limit int
	cmd := p.onDeadLetters(&cobra.Command{
		Use:   "list",
		Short: "List dead letters: where they come from and why",
		Long: "Lists the newest dead letters, the oldest of them first, without the records' contents. To print a whole letter, use\n" +
			"\"dlq show\" with the topic, partition and offset of the letter or of its record. With --output json there is one\n" +
			"object per line.",
		Example: "  waterwheel dlq list --reason bad_time,missing_time --from -24h\n  waterwheel dlq list --limit 0 --output json",
		Args:    noArguments,
		PreRunE: func(*cobra.Command, []string) error {
			if limit < 0 {
				return usageError{fmt.Errorf("--limit is %d: it must not be negative", limit)}
			}
			return nil
		},
	}, filter.read, func(ctx context.Context, from *deadLetters) error {
		return p.listDeadLetters(ctx, from, &filter.Filter, limit)
	})
	filter.flags(cmd)
	cmd.Flags().IntVar(&limit, "limit", 50, "number of the newest dead letters to list; 0 for all")
	return cmd
}

func (p *Program) listDeadLetters(ctx context.Context, from *deadLetters, filter *dlq.Filter, limit int) error {
	list := newDeadLetterList(p.Stdout, limit, p.output == "json")
	wrong, err := p.scanSelected(ctx, from, filter, func(f *dlq.Found) error {
		if f.Err == nil {
			return list.add(newDeadLetterRow(f))
		}
		list.others++
		return nil
	})
	if err != nil {
		return err
	}
	if err := list.end(); err != nil {
		return err
	}
	if list.selected == 0 {
		fmt.Fprintln(p.Stderr, "There are no dead letters, or --from, --to, --reason and --topic select none of them.")
	}
	if rest := list.selected - list.written; rest > 0 {
		fmt.Fprintf(p.Stderr, "%s %s not shown: --limit 0 shows all.\n", words.Count(rest, "older dead letter"), words.Form(rest, "is", "are"))
	}
	if list.others > 0 {
		fmt.Fprintf(p.Stderr, "%s of the dead-letter topics %s.\n", words.Count(list.others, "record"), words.Form(list.others, "is not a dead letter", "are not dead letters"))
	}
	return wrong
}

// deadLetterList prints all rows, or the last ones.
type deadLetterList struct {
	out               io.Writer
	table             *text.Table // Nil means JSON.
	limit             int
	last              []DeadLetterRow // a ring buffer of limit rows
	selected, written int
	others            int
}

func newDeadLetterList(w io.Writer, limit int, asJSON bool) *deadLetterList {
	list := &deadLetterList{out: w, limit: limit}
	if !asJSON {
		list.table = text.NewTable(w)
	}
	return list
}

func (l *deadLetterList) add(row DeadLetterRow) error {
	l.selected++
	switch {
	case l.limit == 0:
		return l.write(row)
	case len(l.last) < l.limit:
		l.last = append(l.last, row)
	default:
		l.last[(l.selected-1)%l.limit] = row
	}
	return nil
}

func (l *deadLetterList) end() error {
	for i := range l.last {
		if err := l.write(l.last[(l.selected+i)%len(l.last)]); err != nil {
			return err
		}
	}
	if l.table != nil {
		l.table.Flush()
	}
	return nil
}

// write prints a row. A long table is printed in pieces, and each piece has its own column widths.
func (l *deadLetterList) write(row DeadLetterRow) error {
	const piece = 1000
	if l.table == nil {
		l.written++
		return text.WriteJSONLine(l.out, row)
	}
	if l.written%piece == 0 {
		l.table.Flush()
		l.table.Title("LETTER", "FROM", "TIME", "REASON", "ATTEMPT", "MESSAGE")
	}
	l.written++
	message := text.Printable(withoutReason(row.Message, row.Reason))
	if row.Cut != "" {
		message = "(truncated) " + message
	}
	l.table.Row(row.DeadLetter, row.from(), row.Time, row.Reason, row.Attempt, text.Fit(l.out, message, 120))
	return nil
}

// withoutReason returns a message without the reason code at its beginning.
func withoutReason(message, reason string) string {
	rest, ok := strings.CutPrefix(message, reason)
	if !ok {
		return message
	}
	return strings.TrimSpace(strings.TrimPrefix(rest, ":"))
}

func (p *Program) dlqStatsCommand() *cobra.Command {
	var filter deadLetterFilter
	cmd := p.onDeadLetters(&cobra.Command{
		Use:   "stats",
		Short: "Count dead letters by reason and by hour",
		Args:  noArguments,
	}, filter.read, func(ctx context.Context, from *deadLetters) error {
		return p.deadLetterStats(ctx, from, &filter.Filter)
	})
	filter.flags(cmd)
	return cmd
}

func (p *Program) deadLetterStats(ctx context.Context, from *deadLetters, filter *dlq.Filter) error {
	stats := dlq.NewStats()
	wrong, err := p.scanSelected(ctx, from, filter, func(f *dlq.Found) error {
		stats.Add(f)
		return nil
	})
	if err != nil {
		return err
	}
	view := newStatsView(stats)
	if err := p.show(view, view.print); err != nil {
		return err
	}
	return wrong
}

// statsView is the JSON output of dlq stats.
type statsView struct {
	*dlq.Stats
	// Hours are the hours of the statistics, in order.
	Hours []hourView `json:"hours"`
}

// hourView counts the letters of records of one hour.
type hourView struct {
	Hour    time.Time        `json:"hour"`
	Reasons map[string]int64 `json:"reasons"`
}

func newStatsView(s *dlq.Stats) statsView {
	view := statsView{s, []hourView{}}
	for _, hour := range slices.SortedFunc(maps.Keys(s.Hours), time.Time.Compare) {
		view.Hours = append(view.Hours, hourView{hour, s.Hours[hour]})
	}
	return view
}

func (s statsView) print(w io.Writer) {
	fmt.Fprint(w, words.Count(s.Letters, "dead letter"))
	if s.Letters > 0 {
		fmt.Fprintf(w, ", of records from %s to %s", text.Time(s.Oldest), text.Time(s.Newest))
	}
	fmt.Fprintln(w)
	if s.Copies > 0 {
		fmt.Fprintf(w, "%d of them %s, written again for the same record after a crash or a failed request. The letters are of %s, and redrive produces each record once\n",
			s.Copies, words.Form(s.Copies, "is a copy", "are copies"), words.Count(s.Letters-s.Copies, "record"))
	}
	if s.Others > 0 {
		fmt.Fprintf(w, "%s of the dead-letter topics %s\n", words.Count(s.Others, "record"), words.Form(s.Others, "is not a dead letter", "are not dead letters"))
	}
	if s.Letters == 0 {
		return
	}
	fmt.Fprintln(w)
	text.Chart(w, "REASON", "LETTERS", s.Reasons)
	if len(s.Topics) > 1 {
		fmt.Fprintln(w)
		text.Chart(w, "TOPIC", "LETTERS", s.Topics)
	}
	fmt.Fprintln(w)
	s.printHours(w)
}

func (s statsView) printHours(w io.Writer) {
	var most int64
	for _, one := range s.Hours {
		most = max(most, text.Sum(one.Reasons))
	}
	table := text.NewTable(w, "HOUR (UTC)", "LETTERS", "", "REASONS")
	for _, one := range s.Hours {
		var list []string
		for _, name := range text.ByCount(one.Reasons) {
			list = append(list, fmt.Sprintf("%s %d", name, one.Reasons[name]))
		}
		total := text.Sum(one.Reasons)
		table.Row(one.Hour.Format("2006-01-02 15h"), total, text.Bar(total, most), strings.Join(list, ", "))
	}
	table.Flush()
}
