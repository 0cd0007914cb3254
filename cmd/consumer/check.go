package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"

	"waterwheel/config"
)

// maxSample bounds --sample: what is sampled is held in memory.
const maxSample = 1_000_000

// CheckView is what check prints as JSON.
type CheckView struct {
	Findings []Finding    `json:"findings"`
	Samples  []SampleView `json:"samples,omitempty"`
}

func (p *program) checkCommand() *cobra.Command {
	var sample int
	var output string
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Look whether everything is in place, and what events would become",
		Long: "Connects to Kafka and MongoDB with the settings in effect and says what it finds, with the way out of what is wrong. It\n" +
			"changes nothing: the one document written for a trial is removed again, though the collection of claims may be made\n" +
			"for it.\n" +
			"With --sample it also decodes the newest records of each topic, without joining the group, and prints what they would\n" +
			"become: measurements, buckets, letters.\n\n" +
			"Exit code 3: something is wrong.",
		Example: "  consumer check\n  consumer check --sample 10000",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkOutput(output); err != nil {
				return err
			}
			if sample < 0 || sample > maxSample {
				return usageError{fmt.Errorf("--sample is %d: it must be 0 to %d records", sample, maxSample)}
			}
			return p.check(cmd.Context(), sample, output)
		},
	}
	cmd.Flags().IntVar(&sample, "sample", 0, "decode so many of the newest records of each topic; 0: none")
	outputFlag(cmd, &output)
	return cmd
}

func (p *program) check(ctx context.Context, sample int, output string) error {
	c, log, err := p.quietSettings()
	if err != nil {
		return err
	}
	var found findings
	p.checkSettings(c, &found)
	clusterID, samples, err := p.checkSource(ctx, c, log, sample, &found)
	if err != nil {
		return err
	}
	checkMongoDB(ctx, c, log, clusterID, &found)
	if err := interrupted(ctx); err != nil {
		return err
	}
	err = p.show(output, CheckView{found.list, samples}, func(w io.Writer) { printCheck(w, &found, samples) })
	if err != nil {
		return err
	}
	if found.count(findingWrong) > 0 {
		return errFound
	}
	return nil
}

// checkSettings says what the settings are about, and what of them works and may not be meant.
func (p *program) checkSettings(c config.Config, found *findings) {
	found.ok("settings", "%s", describeSettings(c))
	for _, w := range c.Warnings() {
		found.warn("settings", w.WayOut, "%s: %s", w.Setting, w.Message)
	}
	if strange := config.Strange(p.environ); len(strange) > 0 {
		found.note("settings", "these variables begin like settings and are none: %s", strings.Join(strange, ", "))
	}
}

// checkSource looks at Kafka, and at the newest records of its topics. clusterID is empty when Kafka does not answer.
func (p *program) checkSource(ctx context.Context, c config.Config, log *slog.Logger, sample int, found *findings) (clusterID string, samples []SampleView, err error) {
	reader, err := openTopicLog(ctx, c, log, kafkaTopics(c))
	if err != nil {
		found.failed("Kafka", err)
		return "", nil, interrupted(ctx)
	}
	defer reader.close()
	present := checkKafka(ctx, c, reader, found)
	if err := interrupted(ctx); err != nil {
		return "", nil, err
	}
	if sample > 0 {
		samples = p.samples(ctx, c, reader, present, sample, found)
	}
	return reader.client.ClusterID(), samples, interrupted(ctx)
}

// interrupted tells that the context has ended: what failed since then says nothing about the servers.
func interrupted(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	return fmt.Errorf("interrupted: %w", context.Cause(ctx))
}

func printCheck(w io.Writer, found *findings, samples []SampleView) {
	for i := range samples {
		if samples[i].Records > 0 {
			printSample(w, &samples[i])
		}
	}
	found.print(w)
}

// describeSettings says what the settings are about, in a line.
func describeSettings(c config.Config) string {
	return fmt.Sprintf("group %s reads %s as %s; \"consumer config\" prints all", c.Kafka.GroupID, strings.Join(c.Kafka.Topics, ", "), c.Event.Format)
}

// kafkaTopics are the topics read, and those of dead letters.
func kafkaTopics(c config.Config) []string {
	topics := append([]string(nil), c.Kafka.Topics...)
	if c.DLQ.Topic != "" {
		o := letterOptions(c)
		topics = append(topics, o.Topics()...)
	}
	return topics
}
