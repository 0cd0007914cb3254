package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"waterwheel/internal/collection"
	"waterwheel/internal/timeseries"
)

func TestOnlyTheConfirmedIsDone(t *testing.T) {
	const plan = "3 buckets would be deleted.\n"
	ended, end := context.WithCancel(t.Context())
	end()
	for name, c := range map[string]struct {
		told           confirmation
		terminal       bool
		answer         string
		done           bool
		err            error
		stdout, stderr string
	}{
		"yes":                {told: confirmation{yes: true}, done: true},
		"dry run":            {told: confirmation{dryRun: true}, terminal: true, stdout: plan},
		"no terminal":        {err: errUnconfirmed, stdout: plan},
		"answered yes":       {terminal: true, answer: "Yes\n", done: true, stderr: plan + "Do it? [y/N] "},
		"answered y":         {terminal: true, answer: " y\r\n", done: true, stderr: plan + "Do it? [y/N] "},
		"answered no":        {terminal: true, answer: "no\n", err: errDeclined, stderr: plan + "Do it? [y/N] "},
		"answered otherwise": {terminal: true, answer: "yesterday\n", err: errDeclined, stderr: plan + "Do it? [y/N] "},
		"nothing":            {terminal: true, answer: "\n", err: errDeclined, stderr: plan + "Do it? [y/N] "},
		"end of input":       {terminal: true, err: errDeclined, stderr: plan + "Do it? [y/N] "},
		"yes and a terminal": {told: confirmation{yes: true}, terminal: true, answer: "no\n", done: true},
	} {
		var stdout, stderr bytes.Buffer
		p := &Program{Stdin: strings.NewReader(c.answer), Stdout: &stdout, Stderr: &stderr, interactive: c.terminal, output: "table"}
		done, err := p.confirmed(t.Context(), c.told, 3, func(w io.Writer) { io.WriteString(w, plan) })
		if done != c.done || !errors.Is(err, c.err) || (err == nil) != (c.err == nil) || stdout.String() != c.stdout || stderr.String() != c.stderr {
			t.Errorf("%s: done %v, %v; %q and %q", name, done, err, stdout.String(), stderr.String())
		}
	}
	stdin, writer := io.Pipe()
	defer writer.Close()
	p := &Program{Stdin: stdin, Stdout: io.Discard, Stderr: io.Discard, interactive: true}
	if done, err := p.confirmed(ended, confirmation{}, 3, func(io.Writer) {}); done || !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: done %v, %v", done, err)
	}
}

// TestWhatRunsDryIsDoneOnceConfirmed checks that the command asks after a dry run, even if that has findings.
func TestWhatRunsDryIsDoneOnceConfirmed(t *testing.T) {
	for name, c := range map[string]struct {
		told   confirmation
		answer string // answer at the terminal. Empty means no terminal.
		ends   error  // error of the dry run
		want   string
		err    error
	}{
		"yes":         {told: confirmation{yes: true}, want: "real"},
		"dry run":     {told: confirmation{dryRun: true}, want: "dry", ends: errFound, err: errFound},
		"no terminal": {want: "dry", err: errUnconfirmed},
		"answered":    {answer: "y\n", want: "dry, real", ends: errFound},
		"declined":    {answer: "n\n", want: "dry", err: errDeclined},
		"failed":      {answer: "y\n", want: "dry", ends: context.DeadlineExceeded, err: context.DeadlineExceeded},
	} {
		p := &Program{Stdin: strings.NewReader(c.answer), Stdout: io.Discard, Stderr: io.Discard, interactive: c.answer != "", output: "table"}
		var runs []string
		err := p.onceConfirmed(t.Context(), c.told, func(dry bool, show shower) error {
			runs = append(runs, map[bool]string{true: "dry", false: "real"}[dry])
			err := show(len(runs), func(io.Writer) {})
			if err == nil && dry {
				err = c.ends
			}
			return err
		})
		if strings.Join(runs, ", ") != c.want || !errors.Is(err, c.err) || (err == nil) != (c.err == nil) {
			t.Errorf("%s: ran %v, %v", name, runs, err)
		}
	}
}

// TestCommandsThatDeleteAsk checks that they have the same flags, and that no other commands have them.
func TestCommandsThatDeleteAsk(t *testing.T) {
	var asking []string
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		yes, dry := cmd.Flags().Lookup("yes"), cmd.Flags().Lookup("dry-run")
		if yes != nil && dry != nil {
			asking = append(asking, strings.TrimPrefix(cmd.CommandPath(), "waterwheel "))
		} else if yes != nil {
			t.Errorf("%s has --yes and no --dry-run", cmd.CommandPath())
		}
		for _, below := range cmd.Commands() {
			walk(below)
		}
	}
	walk((&Program{Lookup: func(string) (string, bool) { return "", false }}).root())
	slices.Sort(asking)
	want := []string{
		"collection create-index", "collection delete-meta", "collection drop-index", "collection expire", "collection set-expiry",
		"collection set-granularity", "collection set-span", "collection shard", "collection update-meta", "dlq redrive", "rollup drop", "verify",
	}
	if diff := cmp.Diff(want, asking); diff != "" {
		t.Error(diff)
	}
	arguments := map[string][]string{
		"collection create-index": {`{"a": 1}`}, "collection drop-index": {"a"}, "collection set-expiry": {"1h"}, "collection set-granularity": {"hours"},
		"collection set-span": {"1h"}, "rollup drop": {"1m"}, "collection delete-meta": {"--filter", "{}"}, "collection update-meta": {"--filter", "{}", "--update", `{"$set": {}}`},
	}
	for _, command := range want {
		args := slices.Concat(strings.Fields(command), arguments[command], []string{"--yes", "--dry-run"})
		if code, _, stderr := try(t, settings(), nil, args...); code != exitUsage || !strings.Contains(stderr, "--dry-run and --yes cannot be combined") {
			t.Errorf("%v: exit code %d, %s", args, code, stderr)
		}
	}
}

// definedAs is a time series with these options. Zero options mean that it is not set up.
type definedAs timeseries.Options

// Definition returns the definition of the time series.
func (d definedAs) Definition(context.Context) (timeseries.Options, int32, error) {
	if d == (definedAs{}) {
		return timeseries.Options{}, 0, collection.ErrNotSetUp
	}
	return timeseries.Options(d), 1, nil
}

// planned returns a store that only plans changes of the definition.
func (d definedAs) planned(string) optionStore { return plannedOptions{d} }

// TestPlannedOptionsAreThoseOfTheChange also checks which of them are irreversible.
func TestPlannedOptionsAreThoseOfTheChange(t *testing.T) {
	now, err := timeseries.Options{TimeField: "time", MetaField: "meta", Granularity: timeseries.Minutes, ExpireAfterSeconds: 7200}.Normalize()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		command optionCommand
		arg     string
		lasting bool
		says    string
		err     string
	}{
		{setGranularityCommand(), "hours", true, "a: would become: hours (a bucket spans 30d), measurements are deleted after 2h; now: minutes (a bucket spans 24h), " +
			"measurements are deleted after 2h.\na: no command can shorten the time span of buckets again.\n", ""},
		{setGranularityCommand(), "minutes", false, "as before. Nothing was changed.", ""},
		{setGranularityCommand(), "seconds", false, "", "cannot become smaller"},
		{setSpanCommand(), "48h", true, "no command can shorten the time span of buckets again", ""},
		{setExpiryCommand(), "1h", true, "a: 2 buckets with 7 measurements would be deleted now, and more later, as they expire.\n", ""},
		{setExpiryCommand(), "3h", false, "would become: minutes (a bucket spans 24h), measurements are deleted after 3h; now: ", ""},
		{setExpiryCommand(), "none", false, "measurements are kept for ever; now: ", ""},
	} {
		plan, err := changeOptions(t.Context(), definedAs(now).planned, []string{"a"}, c.command.change([]string{c.arg}))
		if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %v", c.arg, err)
		}
		if err != nil {
			continue
		}
		plan[0].DryRun = true
		if plan[0].deletes() {
			plan[0].Deletes = &collection.Amount{Buckets: 2, Measurements: 7}
		}
		var out bytes.Buffer
		plan.print(&out, c.command.advice)
		if plan.lasting() != c.lasting || !strings.Contains(out.String(), c.says) {
			t.Errorf("%s: for good %v: %s", c.arg, plan.lasting(), out.String())
		}
	}
	if _, err := changeOptions(t.Context(), definedAs{}.planned, []string{"b"}, setExpiryCommand().change([]string{"1h"})); !errors.Is(err, collection.ErrNotSetUp) {
		t.Error(err)
	}
}

func TestDropsAreToldBefore(t *testing.T) {
	size := int64(2048)
	view := indexView{Name: "by site", Kind: collection.IndexOfUser, Keys: []byte(`{"meta.site":1}`), Bytes: &size}
	var out bytes.Buffer
	indexDrops{{Series: "a", Index: &view}, {Series: "b", Missing: true}, {Series: "c"}}.print(&out)
	want := `a: the index by site on {"meta.site":1} would be dropped (2.0 KiB; if queries need it again, it has to be rebuilt).` + "\n" +
		"b: the index does not exist.\nc: MongoDB has no such index; waterwheel's definition of the index would be deleted.\n"
	if out.String() != want {
		t.Error(fmt.Sprint("\n", out.String(), "want\n", want))
	}
	out.Reset()
	plannedIndexes{{Series: "a", Keys: []byte(`{"time":1}`), BucketKeys: []byte(`{"control.min.time":1}`), Deletes: &collection.Amount{Buckets: 1, Measurements: 5}}}.print(&out)
	if want := "a: the index would delete 1 bucket with 5 measurements, and more as they expire.\n"; !strings.HasSuffix(out.String(), want) {
		t.Error(out.String())
	}
}
