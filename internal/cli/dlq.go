package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
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
	"waterwheel/internal/words"
)

func (p *Program) dlqCommand() *cobra.Command {
	return family("dlq", "Show dead letters and redrive them",
		"Dead letters are the records that could not be stored. They are in the topic that DLQ_TOPIC names, with headers\n"+
			"that contain their source and the reason. The time of a letter is the time of its record.",
		p.dlqListCommand(), p.dlqShowCommand(), p.dlqStatsCommand(), p.dlqRedriveCommand())
}

// letterFilter is a filter given by flags.
type letterFilter struct {
	dlq.Filter
	from, to string
}

func (f *letterFilter) flags(cmd *cobra.Command) {
	cmd.Flags().StringSliceVar(&f.Reasons, "reason", nil, "only dead letters with these reasons, comma-separated")
	cmd.Flags().StringSliceVar(&f.Topics, "topic", nil, "only dead letters from these topics of KAFKA_TOPICS, comma-separated")
	cmd.Flags().StringVar(&f.from, "from", "", "only records of this time or later: "+whenForms)
	cmd.Flags().StringVar(&f.to, "to", "", "only records before this time, in the same form as --from")
}

// read parses the flags.
func (f *letterFilter) read(c config.Config) error {
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

// letters are the dead-letter topics that exist, with the settings.
type letters struct {
	*kafka.Scanner
	config config.Config
	log    *slog.Logger
	topics []string
}

// onLetters makes cmd work on dead letters. prepare checks the flags against the settings, before anything is opened.
func (p *Program) onLetters(cmd *cobra.Command, prepare func(config.Config) error, work func(ctx context.Context, from *letters) error) *cobra.Command {
	p.outputFlag(cmd, "table")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, log, err := p.quietSettings(cmd.Context())
		if err != nil {
			return err
		}
		if err := prepare(c); err != nil {
			return err
		}
		from, err := p.openLetters(cmd.Context(), c, log)
		if err != nil {
			return err
		}
		defer from.Close()
		return work(cmd.Context(), from)
	}
	return cmd
}

// openLetters connects for reading dead letters. The source topics of letters can be read too.
func (p *Program) openLetters(ctx context.Context, c config.Config, log *slog.Logger) (*letters, error) {
	if !c.HasDeadLetters() {
		return nil, usageError{fmt.Errorf("DLQ_TOPIC is empty: there are no dead letters, because a bad record stops its partition; set DLQ_TOPIC to use this command")}
	}
	o := connect.LetterOptions(c)
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
	return &letters{reader, c, log, topics}, nil
}

// scanSelected calls each for every letter that the filter selects, and for every record that is not a letter (Found.Err is set).
// wrong is the error to return after everything is printed. It is set if a misspelt filter selects nothing.
func (p *Program) scanSelected(ctx context.Context, from *letters, filter *dlq.Filter, each func(*dlq.Found) error) (wrong, err error) {
	seen, selected := map[string]int64{}, false
	err = p.scan(ctx, from, func(f *dlq.Found) error {
		if f.Err == nil {
			seen[f.Letter.Reason]++
		}
		if f.Err != nil {
			return each(f)
		}
		if !filter.Selects(&f.Letter) {
			return nil
		}
		selected = true
		return each(f)
	})
	if err == nil {
		wrong = p.warnOfReasons(filter.Reasons, seen, selected)
	}
	return wrong, err
}

// scan calls each for every record of the dead-letter topics, and shows the progress.
func (p *Program) scan(ctx context.Context, from *letters, each func(*dlq.Found) error) error {
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
