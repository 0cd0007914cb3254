package redrive

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"waterwheel/dlq"
	"waterwheel/internal/kafka"
	"waterwheel/internal/kafka/group"
	"waterwheel/internal/record"
)

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
// reported to Options.Stray, and do not prevent the sending. The report's Total is 0 if there is no record at the place.
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
		if wrong != "" && o.Stray != nil {
			o.Stray(Stray{f.Place, wrong})
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
		return errors.New("the letter holds only a part of the record: only the source topic may still have the whole record")
	case !slices.Contains(o.Member.Topics, f.Letter.Topic):
		return fmt.Errorf("the letter comes from the topic %q, which is not in KAFKA_TOPICS: add the topic to KAFKA_TOPICS", f.Letter.Topic)
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
