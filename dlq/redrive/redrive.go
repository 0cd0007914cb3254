package redrive

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"time"

	"waterwheel/dlq"
	"waterwheel/internal/kafka"
	"waterwheel/internal/kafka/group"
	"waterwheel/internal/record"
)

// arrivalTime is how long after a failure a sent record may still arrive. It is the time that one request may take in transit and
// at the broker.
const arrivalTime = 10 * time.Second

// Options define what goes back, and how.
type Options struct {
	// Member are the consumer's own options. They have the topics that letters may go back to, the prefix of the re-drives' group
	// names, and a member's timeouts.
	Member group.Options
	// Topics are the dead-letter topics, which exist. TopicFor returns the dead-letter topic of a source topic. Nil means that
	// letters may be in any of them.
	Topics   []string
	TopicFor func(source string) string
	// Selection selects letters.
	Selection Selection
	// Limit bounds the number of letters driven or refused. Zero means all. A batch that an earlier run began is finished in any
	// case.
	Limit int64
	// Rate bounds the letters per second. Zero means no bound.
	Rate int
	// DryRun counts, and neither sends nor commits anything.
	DryRun bool
	// Again returns, in a dry run, the reason for which a record would become a letter again. Empty means that none is known. Nil
	// means that this is not checked.
	Again func(*dlq.Found) string
	// Report is called with the counts after each batch. Nil means no calls.
	Report func(Report)
	// CutOff is called if the last run was cut off, with the time it takes to look which of its letters have arrived. Nil means
	// no calls.
	CutOff func(wait time.Duration)
	// Foreign is called for each letter that does not belong to the record it names. A later run may call it for the same letter.
	// Nil means no calls.
	Foreign func(Foreign)
	// Refused is called for each letter that its topic refuses. If this run is cut off, a later run may call it for the same
	// letter. Nil means no calls.
	Refused func(Refusal)
}

// Foreign is a letter that does not belong to the record it names. It stays.
type Foreign struct {
	// Place is the letter's place.
	record.Place
	// Wrong says why the letter does not belong to the record.
	Wrong string
}

// Refusal is a letter that its topic does not take back.
type Refusal struct {
	// Place is the letter's place, where it stays.
	record.Place
	// To is the partition that refuses it.
	To  record.Partition
	Err error
}

// UnfinishedError means that a re-drive of another selection was cut off, and it is unknown which of its letters have gone back.
// That re-drive must be run again first.
type UnfinishedError struct{ Selection Selection }

// Error names the selection.
func (e *UnfinishedError) Error() string {
	return fmt.Sprintf("a redrive of another selection of dead letters (%q) was interrupted: run that redrive again first", e.Selection)
}

// Report counts the outcomes of letters.
type Report struct {
	// Total is the number of records to look at, and Read the number of those looked at so far.
	Total int64 `json:"total"`
	Read  int64 `json:"read"`
	// Driven went back, or would have gone back in a dry run. Reasons counts them by reason.
	Driven  int64            `json:"driven"`
	Reasons map[string]int64 `json:"reasons"`
	// Gone counts letters of Driven whose records are no longer in their topics, so that their keys could not be compared.
	Gone int64 `json:"gone"`
	// Again counts letters of Driven that would become letters again, by their new reason. It is set only in a dry run.
	Again map[string]int64 `json:"again,omitempty"`
	// Arrived had already gone back when an earlier run was cut off.
	Arrived int64 `json:"arrived"`
	// Refused were refused by their topics. They stay.
	Refused int64 `json:"refused"`
	// Doubles are second letters of a record in the dead-letter topic, or letters that another selection has driven.
	Doubles int64 `json:"doubles"`
	// Exhausted were tried often enough, Cut lost a part of their value, and Others are not letters. All of these stay.
	Exhausted int64 `json:"exhausted"`
	Cut       int64 `json:"cut"`
	Others    int64 `json:"others"`
	// Foreign do not belong to the records they name, or name records that never existed. They stay.
	Foreign int64 `json:"foreign"`
	// Unselected are not selected.
	Unselected int64 `json:"unselected"`
}

// DefaultMaxAttempts is how often a record is tried by default, including the first time.
const DefaultMaxAttempts = 3

// Selection defines which letters a re-drive takes. Its text names the consumer group. So each selection has its own progress,
// and none commits past letters that another one would take.
type Selection struct {
	dlq.Filter
	// MaxAttempts is how often a record is tried, including the first time. Letters with as many attempts stay.
	MaxAttempts int
}

// These are the names in a selection's text.
const (
	textReason   = "reason"
	textTopic    = "topic"
	textFrom     = "from"
	textTo       = "to"
	textAttempts = "max-attempts"
)

// String returns the selection as one canonical text. It is empty for all letters and the default attempts. parseSelection reads
// it.
func (s Selection) String() string {
	values := url.Values{}
	add := func(name string, list []string) {
		list = slices.Clone(list)
		slices.Sort(list)
		for _, one := range slices.Compact(list) {
			values.Add(name, one)
		}
	}
	add(textReason, s.Reasons)
	add(textTopic, s.Topics)
	for name, t := range map[string]time.Time{textFrom: s.From, textTo: s.To} { // Encode sorts
		if !t.IsZero() {
			values.Set(name, t.UTC().Format(time.RFC3339Nano))
		}
	}
	if s.MaxAttempts != DefaultMaxAttempts {
		values.Set(textAttempts, strconv.Itoa(s.MaxAttempts))
	}
	return values.Encode()
}

// parseSelection parses the result of String.
func parseSelection(text string) (Selection, error) {
	s := Selection{MaxAttempts: DefaultMaxAttempts}
	values, err := url.ParseQuery(text)
	if err != nil {
		return s, fmt.Errorf("reading the selection of dead letters %q: %w", text, err)
	}
	for name, list := range values {
		switch name {
		case textReason:
			s.Reasons = list
		case textTopic:
			s.Topics = list
		case textFrom:
			s.From, err = time.Parse(time.RFC3339Nano, list[0])
		case textTo:
			s.To, err = time.Parse(time.RFC3339Nano, list[0])
		case textAttempts:
			s.MaxAttempts, err = strconv.Atoi(list[0])
		default:
			err = fmt.Errorf("the field %q is not known", name)
		}
		if err != nil {
			return s, fmt.Errorf("reading the selection of dead letters %q: %w", text, err)
		}
	}
	return s, nil
}

// drives reports whether a letter goes back.
func (s *Selection) drives(f *dlq.Found) bool {
	return s.Selects(&f.Letter) && f.Attempts() < s.MaxAttempts && f.Letter.Cut == ""
}

// Run drives letters back as the only member of the selection's group, or counts them in a dry run. If ctx ends, it finishes the
// current batch, commits, and returns ctx's cause. The report is valid even if there is an error, unless its Reasons are nil.
// Then nothing was begun.
func Run(ctx context.Context, log *kafka.Scanner, o Options) (report Report, err error) {
	g := groups{log, o.Member.GroupID}
	if o.DryRun {
		spans, pasts, err := g.pasts(ctx, o.Topics)
		if err != nil {
			return report, err
		}
		return newDriver(log, pasts, o).run(ctx, spans)
	}
	spans, err := dlq.Spans(ctx, log, o.Topics)
	if err != nil {
		return report, err
	}
	err = g.alone(ctx, o, Group(o.Member.GroupID, o.Selection), len(spans), func(ctx context.Context, generation *group.Generation) error {
		report, err = g.drive(ctx, o, generation)
		return err
	})
	return report, err
}

// drive is the work of a generation.
func (g groups) drive(ctx context.Context, o Options, generation *group.Generation) (Report, error) {
	spans, pasts, err := g.pasts(ctx, o.Topics)
	if err != nil {
		return Report{}, err
	}
	if err := g.mayReturn(ctx, o); err != nil {
		return Report{}, err
	}
	d := newDriver(g.log, pasts, o)
	if d.own, err = g.past(ctx, Group(o.Member.GroupID, o.Selection), o.Selection, spans); err != nil {
		return Report{}, err
	}
	if d.own.isCutOff() && o.CutOff != nil {
		o.CutOff(arrivalTime)
	}
	writer := g.log.Writer(o.Member.Topics...)
	defer writer.Close()
	m := &member{held: generation.Held, send: generation.Commit}
	d.progress, d.target = m, &returner{writer.Write, m.hold}
	return d.run(ctx, spans)
}

// mayReturn returns an error if this user may not write to a topic. Otherwise every letter would fail.
func (g groups) mayReturn(ctx context.Context, o Options) error {
	topics, err := g.log.Topics(ctx, o.Member.Topics...)
	if err != nil {
		return fmt.Errorf("reading metadata of the topics: %w", err)
	}
	for _, topic := range topics {
		if topic.Err == nil && !topic.Rights.Allow(kafka.Write) {
			return fmt.Errorf("this user can see topic %q of KAFKA_TOPICS but may not write to it: grant WRITE on the topic, so that `waterwheel dlq redrive` can produce records to it", topic.Name)
		}
	}
	return nil
}

// One sends back one letter that a re-drive has handled, typically one that its topic refused. This is safe beside re-drives,
// because none of them takes the letter again. The user must know that the letter did not go back. Doubts about the letter are
// reported to Options.Foreign, and do not prevent the sending. The report's Total is 0 if there is no record at the place.
func One(ctx context.Context, log *kafka.Scanner, at record.Place, o Options) (Report, error) {
	report := Report{Reasons: map[string]int64{}}
	spans, pasts, err := groups{log, o.Member.GroupID}.pasts(ctx, o.Topics)
	if err != nil {
		return report, err
	}
	writer := log.Writer(o.Member.Topics...)
	defer writer.Close()
	target := &returner{writer.Write, func(context.Context) error { return nil }}
	err = dlq.At(ctx, log, spans, at, func(f *dlq.Found) error {
		report.Total, report.Read = 1, 1
		if err := o.mayGo(pasts, f); err != nil {
			return fmt.Errorf("the dead letter %s: %w", f.Place, err)
		}
		wrong, err := doubt(ctx, log, f)
		if err != nil {
			return err
		}
		if wrong != "" && o.Foreign != nil {
			o.Foreign(Foreign{f.Place, wrong})
		}
		return o.bringBack(ctx, target, f, &report)
	})
	return report, err
}

// mayGo returns why a letter cannot be sent back alone.
func (o *Options) mayGo(pasts []past, f *dlq.Found) error {
	switch {
	case f.Err != nil:
		return f.Err
	case f.Letter.Cut != "":
		return errors.New("the dead letter holds only a part of the record: only the source topic may still have the whole record")
	case !slices.Contains(o.Member.Topics, f.Letter.Topic):
		return fmt.Errorf("the dead letter comes from the topic %q, which is not in KAFKA_TOPICS: add the topic to KAFKA_TOPICS", f.Letter.Topic)
	case !passed(pasts, f):
		return errors.New("--letter takes only dead letters that an ordinary redrive has passed. An ordinary redrive has not passed this one, and would produce its record a second time later: run \"waterwheel dlq redrive\" without --letter")
	}
	return nil
}

func (o *Options) bringBack(ctx context.Context, target target, f *dlq.Found, report *Report) error {
	to := f.Letter.Partition
	refused, err := target.Produce(ctx, to, []kafka.Message{returned(f)})
	switch {
	case err != nil:
		return fmt.Errorf("producing the record of a dead letter to %s: %w; Kafka may have stored the record nevertheless: look for the record in this partition before you repeat the command", to, err)
	case refused[0] != nil:
		report.Refused++
		if o.Refused != nil {
			o.Refused(Refusal{f.Place, to, refused[0]})
		}
	default:
		report.Driven++
		report.Reasons[f.Letter.Reason]++
	}
	return nil
}
