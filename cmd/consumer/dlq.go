package main

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"waterwheel/config"
	"waterwheel/dlq"
	"waterwheel/kafka"
)

func (p *program) dlqCommand() *cobra.Command {
	return family("dlq", "Look at dead letters and drive them back",
		"Dead letters are the records that could not be stored. They stand in the topic that DLQ_TOPIC names, with headers\n"+
			"that say where they come from and why. The times of letters are the times of their records.",
		p.dlqListCommand(), p.dlqShowCommand(), p.dlqStatsCommand(), p.dlqRedriveCommand())
}

// letterFilter are the flags that select letters.
type letterFilter struct {
	reasons, topics []string
	from, to        string
}

func (f *letterFilter) flags(cmd *cobra.Command) {
	cmd.Flags().StringSliceVar(&f.reasons, "reason", nil, "only letters of these reasons, comma-separated")
	cmd.Flags().StringSliceVar(&f.topics, "topic", nil, "only letters from these topics of KAFKA_TOPICS, comma-separated")
	cmd.Flags().StringVar(&f.from, "from", "", "only records of this time or later: RFC 3339, a date, or a distance from now as -2h")
	cmd.Flags().StringVar(&f.to, "to", "", "only records before this time")
}

// filter reads the flags.
func (f *letterFilter) filter(c config.Config, now time.Time) (dlq.Filter, error) {
	out := dlq.Filter{Reasons: f.reasons, Topics: f.topics}
	if err := checkReasons(f.reasons); err != nil {
		return out, err
	}
	err := knownTopics(c, f.topics...)
	if err != nil {
		return out, err
	}
	if out.From, err = parseWhen("--from", f.from, now); err != nil {
		return out, err
	}
	if out.To, err = parseWhen("--to", f.to, now); err != nil {
		return out, err
	}
	return out, nil
}

// letterReader is a log with the dead-letter topics that exist.
type letterReader struct {
	*kafka.Scanner
	topics []string
}

// openLetters connects for reading dead letters. Topics that letters come from can be read too.
func (p *program) openLetters(ctx context.Context, c config.Config, log *slog.Logger) (*letterReader, error) {
	if c.DLQ.Topic == "" {
		return nil, usageError{fmt.Errorf("DLQ_TOPIC is empty: there are no dead letters, a bad record stops its partition instead")}
	}
	o := letterOptions(c)
	topics := o.Topics()
	reader, err := openTopicLog(ctx, c, log, slices.Concat(topics, c.Kafka.Topics))
	if err != nil {
		return nil, err
	}
	missing, err := reader.Missing(ctx, topics...)
	if err != nil {
		reader.Close()
		return nil, err
	}
	for _, topic := range missing {
		fmt.Fprintf(p.stderr, "The dead-letter topic %s does not exist (yet): it has no letters.\n", topic)
	}
	topics = slices.DeleteFunc(topics, func(t string) bool { return slices.Contains(missing, t) })
	return &letterReader{reader, topics}, nil
}

// scanSelected opens the dead-letter topics and calls each for every letter that the flags select, and for every record
// that is no letter (Found.Err).
func (p *program) scanSelected(ctx context.Context, flags letterFilter, each func(*dlq.Found) error) error {
	c, log, err := p.quietSettings()
	if err != nil {
		return err
	}
	filter, err := flags.filter(c, time.Now())
	if err != nil {
		return err
	}
	reader, err := p.openLetters(ctx, c, log)
	if err != nil {
		return err
	}
	defer reader.Close()
	seen := map[string]int64{}
	err = p.scan(ctx, reader, func(f *dlq.Found) error {
		if f.Err == nil {
			seen[f.Letter.Reason]++
		}
		if f.Err != nil || filter.Selects(&f.Letter) {
			return each(f)
		}
		return nil
	})
	if err == nil {
		p.warnOfReasons(flags.reasons, seen)
	}
	return err
}

// scan calls each for every record of the dead-letter topics, with a line of progress.
func (p *program) scan(ctx context.Context, reader *letterReader, each func(*dlq.Found) error) error {
	spans, err := dlq.Spans(ctx, reader, reader.topics)
	if err != nil {
		return err
	}
	var total, done int64
	for _, s := range spans {
		total += s.End - s.First
	}
	line := p.progress("letters read")
	defer line.End()
	return dlq.Scan(ctx, reader, spans, func(f *dlq.Found) error {
		done++
		line.At(done, total)
		return each(f)
	})
}
