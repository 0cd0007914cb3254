package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"waterwheel/config"
	"waterwheel/dlq"
)

// redriveLetter brings one letter back that a re-drive has been at: one that its topic refused then. That no re-drive takes
// it any more makes it safe to do so beside them; that it did not go back is for the user to know, who was told.
func (p *program) redriveLetter(ctx context.Context, c config.Config, log *slog.Logger, o redriveOptions) error {
	place, offset, err := parsePlace(o.letter)
	if err != nil {
		return usageError{err}
	}
	reader, err := p.openLetters(ctx, c, log)
	if err != nil {
		return err
	}
	defer reader.Close()
	if !slices.Contains(reader.topics, place.Topic) {
		return usageError{fmt.Errorf("--letter is %q: %s is no dead-letter topic", o.letter, place.Topic)}
	}
	spans, err := dlq.Spans(ctx, reader, reader.topics)
	if err != nil {
		return err
	}
	pasts, err := redrivePasts(ctx, c, reader, spans)
	if err != nil {
		return err
	}
	report := dlq.Report{Reasons: map[string]int64{}}
	for _, s := range spans {
		if s.Place != place || offset < s.First || offset >= s.End {
			continue
		}
		one := dlq.Span{Place: place, First: offset, End: offset + 1}
		err := dlq.Scan(ctx, reader, []dlq.Span{one}, func(f *dlq.Found) error {
			report.Total, report.Read = 1, 1
			if err := mayReturn(c, pasts, f); err != nil {
				return fmt.Errorf("the letter %s/%d: %w", f.Place, f.Offset, err)
			}
			wrong, err := dlq.Doubt(ctx, reader, &f.Letter)
			if err != nil {
				return err
			}
			if wrong != "" {
				fmt.Fprintf(p.stderr, "The letter %s/%d is not of the record that it names (%s): it is brought back all the same.\n", f.Place, f.Offset, wrong)
			}
			return p.returnLetter(ctx, c, f, &report)
		})
		if err != nil {
			return err
		}
	}
	if report.Total == 0 {
		return fmt.Errorf("%w: %s; \"consumer dlq list\" shows the places of letters", errNoLetter, o.letter)
	}
	return errors.Join(p.printRedrive(o, "", report), p.tellStaying(report))
}

// mayReturn tells why a letter is not brought back alone.
func mayReturn(c config.Config, pasts []dlq.Past, f *dlq.Found) error {
	switch {
	case f.Err != nil:
		return f.Err
	case f.Letter.Cut != "":
		return errors.New("a part of its value is lost: only the topic it comes from may still have it")
	case !slices.Contains(c.Kafka.Topics, f.Letter.Topic):
		return fmt.Errorf("it comes from the topic %q, which is not one of KAFKA_TOPICS: add it there", f.Letter.Topic)
	case !dlq.Passed(pasts, f):
		return errors.New("no re-drive has been at it yet: \"consumer dlq redrive\" without --letter brings it back, and would do so again")
	}
	return nil
}

func (p *program) returnLetter(ctx context.Context, c config.Config, f *dlq.Found, report *dlq.Report) error {
	transport, err := security(c.Security).Transport(c.Kafka.Topics, nil)
	if err != nil {
		return err
	}
	returner := dlq.NewReturner(c.Kafka.Brokers, transport, redriveSettle/2, nil)
	defer returner.Close()
	to := dlq.Place{Topic: f.Letter.Topic, Partition: f.Letter.Partition}
	err = dlq.Return(ctx, returner, f)
	var refused *dlq.RefusedError
	switch {
	case errors.As(err, &refused):
		report.Refused++
		p.nameRefused(dlq.Refusal{Place: f.Place, Offset: f.Offset, To: to, Err: refused.Errs[0]})
	case err != nil:
		return fmt.Errorf("bringing a letter back to %s: %w; it may have arrived all the same: look there before you do it again", to, err)
	default:
		report.Driven++
		report.Reasons[f.Letter.Reason]++
	}
	return nil
}

// nameRefused says that a letter stays.
func (p *program) nameRefused(r dlq.Refusal) {
	fmt.Fprintf(p.stderr, "The letter %s/%d stays: %s does not take it: %v\n", r.Place, r.Offset, r.To, r.Err)
}

// tellStaying says what to do about letters that were refused or are of no record, if there are any.
func (p *program) tellStaying(r dlq.Report) error {
	if r.Refused > 0 {
		fmt.Fprintf(p.stderr, "%d letters stay: change the configuration of their topics, then bring each back with \"consumer dlq redrive --letter\" and its place.\n", r.Refused)
	}
	if r.Refused > 0 || r.Strays > 0 {
		return errFound
	}
	return nil
}
