package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"waterwheel/cmd/consumer/internal/text"
	"waterwheel/config"
)

// choice is the value of a flag that is one of several words, the first unless another is set.
type choice struct {
	value *string
	words []string
}

func (c choice) String() string { return *c.value }

// Type is what the help calls the value.
func (choice) Type() string { return "string" }

// Set takes one of the words.
func (c choice) Set(word string) error {
	if !slices.Contains(c.words, word) {
		return fmt.Errorf("must be %s", strings.Join(c.words, " or "))
	}
	*c.value = word
	return nil
}

// outputFlag lets the reader choose how a command prints what it found: for people as the form says, or as JSON.
func (p *program) outputFlag(cmd *cobra.Command, form string) {
	p.output = form
	cmd.Flags().Var(choice{&p.output, []string{form, "json"}}, "output", form+" or json")
}

// show prints what a command found, as --output says.
func (p *program) show(found any, print func(io.Writer)) error {
	if p.output == "json" {
		return text.WriteJSON(p.stdout, found)
	}
	print(p.stdout)
	return nil
}

// knownTopics refuses topics that the settings do not name.
func knownTopics(c config.Config, topics ...string) error {
	for _, topic := range topics {
		if !slices.Contains(c.Kafka.Topics, topic) {
			return usageError{fmt.Errorf("--topic is %q, which is not one of KAFKA_TOPICS: %s", topic, strings.Join(c.Kafka.Topics, ", "))}
		}
	}
	return nil
}

// parseWhen reads a time from a flag: RFC 3339, a date, now, or a distance from now; zero when it is empty.
func parseWhen(flag, text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if text == "now" {
		return now.UTC().Truncate(time.Millisecond), nil
	}
	if isDistance(text) {
		if d, ok := parseSpan(text[1:]); ok {
			if text[0] == '-' {
				d = -d
			}
			return now.Add(d).UTC().Truncate(time.Millisecond), nil
		}
	}
	for _, layout := range []string{time.RFC3339Nano, time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil {
			return t.UTC(), nil
		}
	}
	return time.Time{}, usageError{fmt.Errorf("%s is %q: a time as 2026-01-31T12:00:00Z, a date as 2026-01-31, now, or a distance from now as -2h or -7d", flag, text)}
}

// isDistance tells whether a time of a flag is written as a distance from now.
func isDistance(text string) bool {
	return strings.HasPrefix(text, "-") || strings.HasPrefix(text, "+")
}
