package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/config"
	"waterwheel/internal/cli/text"
	"waterwheel/internal/measurement"
	"waterwheel/internal/words"
)

// choice is the value of a flag that takes one of several words.
type choice struct {
	value *string
	words []string
}

func (c choice) String() string { return *c.value }

// Type returns the name of the value in the help.
func (choice) Type() string { return "string" }

// Set takes one of the words, in any case.
func (c choice) Set(word string) error {
	for _, known := range c.words {
		if words.Plain(known) == words.Plain(word) {
			*c.value = known
			return nil
		}
	}
	return errors.New("must be " + strings.Join(c.words, " or ") + words.DidYouMean(word, c.words))
}

// length is the value of a flag that takes a length of time.
type length struct{ *time.Duration }

// Type returns the name of the value in the help.
func (length) Type() string { return "duration" }

// Set parses a length of time such as 36h or 30d.
func (l length) Set(text string) (err error) {
	var ok bool
	if *l.Duration, ok = words.ParseSpan(text); !ok {
		return errors.New("must be a length of time such as 90s, 1h30m, 7d or 2w")
	}
	return nil
}

// outputFlag adds --output, with the values form (for people) and json.
func (p *Program) outputFlag(cmd *cobra.Command, form string) {
	p.output = form
	cmd.Flags().Var(choice{&p.output, []string{form, "json"}}, "output", form+" or json")
}

// show prints the result of a command in the format of --output.
func (p *Program) show(found any, print func(io.Writer)) error {
	if p.output == "json" {
		return text.WriteJSON(p.Stdout, found)
	}
	print(p.Stdout)
	return nil
}

// printer is a part of an output for people.
type printer interface{ print(w io.Writer) }

// printAll returns a function that prints the parts one after the other.
func printAll[P printer](parts []P) func(io.Writer) {
	return func(w io.Writer) {
		for _, one := range parts {
			one.print(w)
		}
	}
}

// knownTopics rejects topics that the settings do not name.
func knownTopics(c config.Config, topics ...string) error {
	for _, topic := range topics {
		if !slices.Contains(c.Kafka.Topics, topic) {
			known := strings.Join(c.Kafka.Topics, ", ")
			return usageError{fmt.Errorf("--topic is %q, which is not one of KAFKA_TOPICS: %s%s", topic, known, words.DidYouMean(topic, c.Kafka.Topics))}
		}
	}
	return nil
}

// parseJSON parses a value of Extended JSON. MongoDB's driver would ignore what follows the value.
func parseJSON(text string) (bson.RawValue, error) {
	var value json.RawMessage
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		return bson.RawValue{}, err
	}
	var d bson.Raw
	if err := bson.UnmarshalExtJSON([]byte(`{"v":`+text+`}`), false, &d); err != nil {
		return bson.RawValue{}, err
	}
	return d.Lookup("v"), nil
}

// parseObject parses a document of a command line. what names its place in errors.
func parseObject(what, text string) (bson.Raw, error) {
	value, err := parseJSON(text)
	object, ok := value.DocumentOK()
	if err == nil && !ok {
		err = fmt.Errorf("its type is %s", value.Type)
	}
	if err != nil {
		return nil, usageError{fmt.Errorf("%s: %.80q is not a JSON object (%w); write it as '{\"meta.sensor\": 1}', within single quotes", what, text, err)}
	}
	return object, nil
}

// These describe the values of parseWhen in the help and in errors.
const (
	whenForms    = "RFC 3339, a date with or without a time of day (UTC if no zone is given), now, or a time relative to now such as -2h or -7d"
	whenExamples = `a time such as 2026-01-31T12:00:00Z, "2026-01-31 12:00" or 2026-01-31, now, or a time relative to now such as -2h or -7d`
)

// zoneless are the formats of a time without a zone.
var zoneless = []string{time.DateOnly, "2006-01-02 15:04", time.DateTime, "2006-01-02T15:04", "2006-01-02T15:04:05"}

// parseWhen parses a time of a flag: RFC 3339, a date, now, or a distance from now. It returns the zero time for an empty text. A
// time without a zone is in the given zone.
func parseWhen(flag, text string, now time.Time, zone *time.Location) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if text == "now" {
		return now.UTC().Truncate(time.Millisecond), nil
	}
	if d, ok := words.ParseSpan(text); ok && isRelative(text) {
		return now.Add(d).UTC().Truncate(time.Millisecond), nil
	}
	for _, layout := range zoneless {
		if wall, err := time.Parse(layout, text); err == nil {
			return inZone(wall, zone).UTC(), nil
		}
	}
	if t, ok := measurement.ParseTime(text); ok {
		return t.UTC(), nil
	}
	return time.Time{}, usageError{fmt.Errorf("%s is %q: give %s", flag, text, whenExamples)}
}

// inZone returns the moment at which clocks of a zone show a time. A time that the clocks skip in spring is the moment of the
// change.
func inZone(wall time.Time, zone *time.Location) time.Time {
	t := time.Date(wall.Year(), wall.Month(), wall.Day(), wall.Hour(), wall.Minute(), wall.Second(), wall.Nanosecond(), zone)
	_, offset := t.Zone()
	switch shown := t.Add(time.Duration(offset) * time.Second).UTC(); {
	case shown.Before(wall):
		_, t = t.ZoneBounds()
	case shown.After(wall):
		t, _ = t.ZoneBounds()
	}
	return t
}

// isRelative reports whether a time of a flag depends on the present: now, or a distance from now.
func isRelative(text string) bool {
	return text == "now" || strings.HasPrefix(text, "-") || strings.HasPrefix(text, "+")
}

// confirmation holds the flags with which a person confirms a command that deletes something, or that no command can undo. Each
// such command first determines what it would do, and then asks with Program.confirmed.
type confirmation struct{ dryRun, yes bool }

// flags adds the flags to a command, which then rejects both of them together. Other checks of the command come first.
func (c *confirmation) flags(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&c.dryRun, "dry-run", false, "show what would be done, and do nothing")
	cmd.Flags().BoolVar(&c.yes, "yes", false, "do it without asking; required if there is no terminal to ask at")
	check := cmd.PreRunE
	cmd.PreRunE = func(cmd *cobra.Command, args []string) error {
		if check != nil {
			if err := check(cmd, args); err != nil {
				return err
			}
		}
		if c.dryRun && c.yes {
			return usageError{errors.New("--dry-run and --yes cannot be combined")}
		}
		return nil
	}
}

// errUnconfirmed means that neither flag was given and there is no terminal to ask at.
var errUnconfirmed = errors.New("nothing was changed: there is no terminal on which the command can ask. Repeat the command with --yes to make the changes, or with --dry-run to only show them")

// errDeclined means that the question was not answered with yes.
var errDeclined = errors.New("nothing was changed: the answer was not yes")

// edit shows the plan, or the part that exists if planning failed. It asks whether to continue, calls do, and shows the result.
func (p *Program) edit(ctx context.Context, c confirmation, planning error, views any, print func(io.Writer), do func() error) error {
	if planning != nil {
		return errors.Join(planning, p.show(views, print))
	}
	if confirmed, err := p.confirmed(ctx, c, views, print); !confirmed {
		return err
	}
	return errors.Join(do(), p.show(views, print))
}

// editPlan is the part that the plans for time series have in common. Once a plan is carried out, it is the result.
type editPlan struct {
	Series string `json:"collection"`
	DryRun bool   `json:"dryRun"`
}

func (e *editPlan) begin() { e.DryRun = false }

// verb returns would for a plan. It returns what a result says about the selected measurements otherwise.
func (e *editPlan) verb(would string) string {
	if e.DryRun {
		return would
	}
	return "were selected"
}

// editSeries is Program.edit for the plans of several time series. It carries out one plan after the other, until one fails.
func editSeries[P interface {
	printer
	begin()
}](ctx context.Context, p *Program, c confirmation, planning error, plans []P, do func(P) error) error {
	if plans == nil {
		plans = []P{} // an empty list in JSON
	}
	return p.edit(ctx, c, planning, plans, printAll(plans), func() error {
		for _, one := range plans {
			one.begin()
		}
		for _, one := range plans {
			if err := do(one); err != nil {
				return err
			}
		}
		return nil
	})
}

// confirmed reports whether to carry out a plan. Without --yes it shows the plan, and asks at the terminal. If there is no
// terminal, it returns an error.
func (p *Program) confirmed(ctx context.Context, c confirmation, plan any, print func(io.Writer)) (bool, error) {
	switch {
	case c.yes:
		return true, nil
	case c.dryRun:
		return false, p.show(plan, print)
	case !p.interactive:
		return false, errors.Join(p.show(plan, print), errUnconfirmed)
	}
	print(p.Stderr)
	fmt.Fprint(p.Stderr, "Do it? [y/N] ")
	answer := make(chan string, 1)
	go func() { // Reading cannot be interrupted. If the command is, the program ends.
		line, _ := bufio.NewReader(p.Stdin).ReadString('\n')
		answer <- line
	}()
	select {
	case line := <-answer:
		if word := strings.ToLower(strings.TrimSpace(line)); word == "y" || word == "yes" {
			return true, nil
		}
		return false, errDeclined
	case <-ctx.Done():
		return false, fmt.Errorf("interrupted: nothing was changed: %w", context.Cause(ctx))
	}
}

// shower shows the result or the plan of a command, like Program.show.
type shower func(found any, print func(io.Writer)) error

// onceConfirmed runs a command that supports a dry run. With --yes it runs it at once. Otherwise it runs it dry, and then for
// real if the plan is confirmed.
func (p *Program) onceConfirmed(ctx context.Context, c confirmation, run func(dry bool, show shower) error) error {
	if c.yes {
		return run(false, p.show)
	}
	confirmed := false
	err := run(true, func(plan any, print func(io.Writer)) (err error) {
		confirmed, err = p.confirmed(ctx, c, plan, print)
		return err
	})
	if !confirmed || err != nil && !errors.Is(err, errFound) {
		return err
	}
	return run(false, p.show)
}
