package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"waterwheel/internal/cli/text"
	"waterwheel/internal/collection"
	"waterwheel/internal/timeseries"
	"waterwheel/internal/words"
)

// optionStore changes the options of a time series. A collection.TimeSeries implements it. Each method returns the definitions
// before and after. They are equal if nothing changed.
type optionStore interface {
	SetBucketing(ctx context.Context, to timeseries.Options) (before, after timeseries.Options, err error)
	SetExpiry(ctx context.Context, seconds int64) (before, after timeseries.Options, err error)
}

// optionChange changes the options of one time series.
type optionChange func(ctx context.Context, in optionStore) (before, after timeseries.Options, err error)

// optionCommand is a command that changes options of time series.
type optionCommand struct {
	*cobra.Command
	change func(args []string) optionChange
	// advice returns the settings that agree with the new options.
	advice func(after timeseries.Options) string
}

func setGranularityCommand() optionCommand {
	command := &cobra.Command{
		Use:   "set-granularity seconds|minutes|hours",
		Short: "Let new buckets span a longer time",
		Long: "Changes the granularity of collections, as collMod does for MongoDB's own time series. Only a coarser granularity is\n" +
			"possible, because stored buckets stay valid with it. This cannot be undone, so the command asks first. Stored buckets\n" +
			"stay as they are. The command adjusts the view of the measurements and the expiry first. Running consumers apply the\n" +
			"change within a minute. A consumer that starts with another MONGODB_GRANULARITY logs this and uses the collection's\n" +
			"granularity.",
		Example:   "  waterwheel collection set-granularity minutes --dry-run\n  waterwheel collection set-granularity minutes --yes",
		ValidArgs: []string{string(timeseries.Seconds), string(timeseries.Minutes), string(timeseries.Hours)},
	}
	command.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) != 1 {
			return usageError{fmt.Errorf("%q takes one argument (seconds, minutes or hours), but got %d", cmd.CommandPath(), len(args))}
		}
		if !slices.Contains(cmd.ValidArgs, args[0]) {
			return usageError{fmt.Errorf("%q is not seconds, minutes or hours%s", args[0], words.DidYouMean(args[0], cmd.ValidArgs))}
		}
		return nil
	}
	return optionCommand{command, func(args []string) optionChange {
		return func(ctx context.Context, in optionStore) (before, after timeseries.Options, err error) {
			return in.SetBucketing(ctx, timeseries.Options{Granularity: timeseries.Granularity(args[0])})
		}
	}, func(after timeseries.Options) string { return "MONGODB_GRANULARITY=" + string(after.Granularity) }}
}

func setSpanCommand() optionCommand {
	return optionCommand{&cobra.Command{
		Use:   "set-span DURATION",
		Short: "Set a custom time span for new buckets",
		Long: "Changes the bucketing of collections to a custom one: a bucket begins at a multiple of DURATION, and spans DURATION.\n" +
			"Neither value may become smaller than it is now. Otherwise the command works like set-granularity.",
		Example: "  waterwheel collection set-span 2h --yes",
		Args:    oneDuration(false),
	}, func(args []string) optionChange {
		seconds := int32(secondsOf(args[0]))
		return func(ctx context.Context, in optionStore) (before, after timeseries.Options, err error) {
			return in.SetBucketing(ctx, timeseries.Options{MaxSpanSeconds: seconds, RoundingSeconds: seconds})
		}
	}, func(after timeseries.Options) string {
		span := spanOf(after.MaxSpanSeconds)
		return fmt.Sprintf("MONGODB_BUCKET_MAX_SPAN=%s and MONGODB_BUCKET_ROUNDING=%s", span, span)
	}}
}

func setExpiryCommand() optionCommand {
	return optionCommand{&cobra.Command{
		Use:   "set-expiry DURATION|none",
		Short: "Change the time after which measurements are deleted",
		Long: "Changes, sets or removes the time after which MongoDB deletes the measurements of collections. A bucket is deleted when\n" +
			"its whole time span is older. A shorter time applies immediately, and only Kafka may still have the deleted measurements: the\n" +
			"command reports how many it would delete, and asks first.\n" +
			"Running consumers need no restart. A consumer that starts with another MONGODB_EXPIRE_AFTER logs this and uses the\n" +
			"collection's time. If MongoDB does not delete expired documents itself, run waterwheel collection expire.",
		Example: "  waterwheel collection set-expiry 90d --dry-run\n  waterwheel collection set-expiry 90d --yes\n  waterwheel collection set-expiry none",
		Args:    oneDuration(true),
	}, func(args []string) optionChange {
		seconds := secondsOf(args[0])
		return func(ctx context.Context, in optionStore) (before, after timeseries.Options, err error) {
			return in.SetExpiry(ctx, seconds)
		}
	}, func(after timeseries.Options) string {
		if after.ExpireAfterSeconds == 0 {
			return "MONGODB_EXPIRE_AFTER to nothing"
		}
		return "MONGODB_EXPIRE_AFTER=" + spanOf(after.ExpireAfterSeconds)
	}}
}

// noDuration is the argument for no expiry.
const noDuration = "none"

// oneDuration takes one argument: a duration of whole seconds, or none if that is allowed.
func oneDuration(orNone bool) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		form := "a duration of whole seconds, such as 36h or 30d"
		if orNone {
			form += ", or none"
		}
		if len(args) != 1 {
			return usageError{fmt.Errorf("%q takes one argument (%s), but got %d", cmd.CommandPath(), form, len(args))}
		}
		d, ok := words.ParseSpan(args[0])
		if orNone && args[0] == noDuration || ok && d >= time.Second && d%time.Second == 0 && d/time.Second <= 1<<31-1 {
			return nil
		}
		return usageError{fmt.Errorf("%q is not %s", args[0], form)}
	}
}

// secondsOf returns the seconds of an argument that oneDuration has accepted.
func secondsOf(argument string) int64 {
	d, _ := words.ParseSpan(argument)
	return int64(d / time.Second)
}

// onOptions completes a command that changes options.
func (p *Program) onOptions(c optionCommand) *cobra.Command {
	var told confirmation
	cmd := p.onCollections(c.Command, func(ctx context.Context, with collections, args []string) error {
		plan, err := p.planOptions(ctx, with, c.change(args))
		if err != nil {
			return err
		}
		if told.dryRun || plan.lasting() {
			if do, err := p.confirmed(ctx, told, plan, func(w io.Writer) { plan.print(w, c.advice) }); !do {
				return err
			}
		}
		stop := p.still("changing the options") // it may wait for another change, and for the building of an index
		changes, err := changeOptions(ctx, func(series string) optionStore { return with.of(series) }, with.series, c.change(args))
		stop()
		return errors.Join(p.show(changes, func(w io.Writer) { changes.print(w, c.advice) }), err)
	})
	told.flags(cmd)
	return cmd
}

// planOptions determines the options after a change, and what would be deleted.
func (p *Program) planOptions(ctx context.Context, with collections, change optionChange) (optionChanges, error) {
	plan, err := changeOptions(ctx, func(series string) optionStore { return plannedOptions{with.of(series)} }, with.series, change)
	if err != nil {
		return nil, err
	}
	for i := range plan {
		one := &plan[i]
		one.DryRun = true
		if !one.deletes() {
			continue
		}
		now, err := with.database.Clock(ctx)
		if err != nil {
			return nil, err
		}
		selection, _, err := with.of(one.Series).Expired(ctx, now.Add(-time.Duration(one.After.ExpireAfterSeconds)*time.Second))
		if err != nil {
			return nil, err
		}
		if one.Deletes, err = p.amountOf(ctx, one.Series, selection); err != nil {
			return nil, err
		}
	}
	return plan, nil
}

// plannedOptions is an optionStore that changes nothing.
type plannedOptions struct {
	from interface {
		Definition(ctx context.Context) (timeseries.Options, int32, error)
	}
}

// SetBucketing implements optionStore.
func (p plannedOptions) SetBucketing(ctx context.Context, to timeseries.Options) (before, after timeseries.Options, err error) {
	return p.change(ctx, func(o timeseries.Options) timeseries.Options {
		to.TimeField, to.MetaField, to.ExpireAfterSeconds = o.TimeField, o.MetaField, o.ExpireAfterSeconds
		return to
	})
}

// SetExpiry implements optionStore.
func (p plannedOptions) SetExpiry(ctx context.Context, seconds int64) (before, after timeseries.Options, err error) {
	return p.change(ctx, func(timeseries.Options) timeseries.Options { return timeseries.Options{ExpireAfterSeconds: seconds} })
}

func (p plannedOptions) change(ctx context.Context, to func(timeseries.Options) timeseries.Options) (before, after timeseries.Options, err error) {
	if before, _, err = p.from.Definition(ctx); err != nil {
		return before, after, err
	}
	after, err = before.Change(to(before))
	return before, after, err
}

// changeOptions changes one time series after the other. It stops at the first error.
func changeOptions(ctx context.Context, in func(series string) optionStore, series []string, change optionChange) (optionChanges, error) {
	changes := optionChanges{}
	for _, name := range series {
		before, after, err := change(ctx, in(name))
		if err != nil {
			return changes, fmt.Errorf("changing %s: %w", name, err)
		}
		changes = append(changes, changedOptions{
			Series: name, Before: newOptionsView(before), After: newOptionsView(after), Changed: before != after, after: after,
		})
	}
	return changes, nil
}

// changedOptions is the result of a command for the options of a time series.
type changedOptions struct {
	Series  string      `json:"collection"`
	Before  optionsView `json:"before"`
	After   optionsView `json:"after"`
	Changed bool        `json:"changed"`
	// DryRun reports that this is a plan. Deletes is what MongoDB would delete at once because of it. Nil means nothing.
	DryRun  bool               `json:"dryRun,omitempty"`
	Deletes *collection.Amount `json:"deletes,omitempty"`

	after timeseries.Options
}

// deletes reports whether the expiry becomes shorter.
func (c changedOptions) deletes() bool {
	before, after := c.Before.ExpireAfterSeconds, c.After.ExpireAfterSeconds
	return after != 0 && (before == 0 || after < before)
}

// lasting reports whether no command can undo the change.
func (c changedOptions) lasting() bool {
	return c.deletes() || c.Before.bucketingView != c.After.bucketingView
}

// optionsView are the options of a time series that can be changed.
type optionsView struct {
	bucketingView
	ExpireAfterSeconds int64 `json:"expireAfterSeconds"` // Zero means never.
}

func newOptionsView(o timeseries.Options) optionsView {
	return optionsView{newBucketingView(o), o.ExpireAfterSeconds}
}

// String returns it in the terms of the settings.
func (v optionsView) String() string {
	expiry := "measurements are kept for ever"
	if v.ExpireAfterSeconds > 0 {
		expiry = "measurements are deleted after " + spanOf(v.ExpireAfterSeconds)
	}
	return v.bucketingView.String() + ", " + expiry
}

type optionChanges []changedOptions

// lasting reports whether no command can undo one of the changes.
func (c optionChanges) lasting() bool { return slices.ContainsFunc(c, changedOptions.lasting) }

func (c optionChanges) print(w io.Writer, advice func(after timeseries.Options) string) {
	for _, one := range c {
		switch {
		case one.DryRun && one.Changed:
			one.printPlan(w)
		case one.Changed:
			fmt.Fprintf(w, "%s: %s; before: %s. Set %s, so that the settings of consumers agree.\n", one.Series, one.After, one.Before, advice(one.after))
		default:
			fmt.Fprintf(w, "%s: %s, as before. Nothing was changed.\n", one.Series, one.After)
		}
	}
}

// printPlan prints what would be changed, and what cannot be undone.
func (c changedOptions) printPlan(w io.Writer) {
	fmt.Fprintf(w, "%s: would become: %s; now: %s.\n", c.Series, c.After, c.Before)
	if c.Before.bucketingView != c.After.bucketingView {
		fmt.Fprintf(w, "%s: no command can shorten the time span of buckets again.\n", c.Series)
	}
	if c.Deletes != nil {
		fmt.Fprintf(w, "%s: %s would be deleted now, and more later, as they expire.\n", c.Series, amountText(*c.Deletes))
	}
}

// amountOf counts the selected buckets of a time series.
func (p *Program) amountOf(ctx context.Context, series string, s *collection.Selection) (*collection.Amount, error) {
	line := p.progress("reading buckets of " + series)
	defer line.End()
	amount, err := s.Amount(ctx, func(buckets int64) { line.At(buckets, 0) })
	if err != nil {
		return nil, fmt.Errorf("%s: %w", series, err)
	}
	return &amount, nil
}

func (p *Program) expireCommand() *cobra.Command {
	var told confirmation
	var given string
	var before time.Time // Zero means that --before is not given.
	cmd := p.onCollections(&cobra.Command{
		Use:   "expire",
		Short: "Delete expired measurements and rollup rows once",
		Long: "Deletes the buckets whose measurements are all older than the collection's expiry (MONGODB_EXPIRE_AFTER, collection\n" +
			"set-expiry), or older than --before. Use it once, or regularly on servers that do not delete expired documents\n" +
			"themselves. It deletes whole buckets only, so some older measurements stay until their whole bucket is old enough.\n" +
			"Without --before it also deletes the expired rows of rollups, by the expiries of ROLLUP_LEVELS.\n\n" +
			"Consumers may keep running: they open a new bucket in place of a deleted one. With --before the command notes the\n" +
			"Kafka positions of the deleted measurements, as delete-meta does. `waterwheel verify` then counts them as deleted, and\n" +
			"a reset of the group's offsets does not store them again. Without --before it notes nothing: `verify` counts these\n" +
			"measurements as expired by their time. If a run is interrupted, run the same command again to finish it.",
		Example: "  waterwheel collection expire --dry-run\n  waterwheel collection expire --yes\n" +
			"  waterwheel collection expire --before 2026-01-01T00:00:00Z --yes",
		Args: noArguments,
		PreRunE: func(*cobra.Command, []string) (err error) {
			before, err = parseWhen("--before", given, time.Now(), time.UTC)
			return err
		},
	}, func(ctx context.Context, with collections, _ []string) error {
		views, err := p.planExpiries(ctx, with, before)
		return editSeries(ctx, p, told, err, views, func(v *expiryView) (err error) {
			v.Edited, err = p.deleteSelected(ctx, v.Series, v.selection.Delete, v.Selected)
			return err
		})
	})
	cmd.Flags().StringVar(&given, "before", "", "delete measurements older than this time: "+whenForms+"; default: the collection's expiry")
	told.flags(cmd)
	return cmd
}

// expiryView is the result of expire for a time series.
type expiryView struct {
	editPlan
	// Rollup reports that this is a level of rollups. Its measurements are rows.
	Rollup   bool               `json:"rollup,omitempty"`
	Before   time.Time          `json:"before"`
	Selected collection.Amount  `json:"selected"`
	Edited   *collection.Edited `json:"edited,omitempty"`

	selection *collection.Selection
}

func (v *expiryView) print(w io.Writer) {
	amount := amountText
	if v.Rollup {
		amount = rowsText
	}
	fmt.Fprintf(w, "%s: %s from before %s %s.\n", v.Series, amount(v.Selected), text.Time(v.Before), v.verb("would be deleted"))
	printAmount(w, v.Edited, amount, "deleted")
}

// rowsText formats an amount of rollups.
func rowsText(a collection.Amount) string {
	return fmt.Sprintf("%s with %s of rollups", words.Count(a.Buckets, "document"), words.Count(a.Measurements, "row"))
}

// planExpiries determines what would be deleted of each time series. Rollups outlive their measurements, so --before leaves them
// alone. Without --before each level with an expiry has a plan of its own.
func (p *Program) planExpiries(ctx context.Context, with collections, before time.Time) (plans []*expiryView, err error) {
	for _, name := range with.series {
		s := with.of(name)
		var levels []*expiryView
		if before.IsZero() {
			if levels, err = p.planLevels(ctx, with, s); err != nil {
				return plans, err
			}
		}
		plan, err := p.planExpiry(ctx, s, before)
		switch {
		case err == nil:
			plans = append(plans, plan)
		case !errors.Is(err, collection.ErrNeverExpires):
			return plans, seriesError(name, err)
		case len(levels) == 0:
			return plans, fmt.Errorf("%w: give --before, or set an expiry with `waterwheel collection set-expiry`", err)
		}
		plans = append(plans, levels...)
	}
	return plans, nil
}

// planLevels determines what would be deleted of the rollups of a time series. It leaves out levels without an expiry, and levels
// that are being dropped.
func (p *Program) planLevels(ctx context.Context, with collections, s timeSeries) (plans []*expiryView, err error) {
	names, err := s.LevelNames(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.name, err)
	}
	for _, name := range names {
		plan, err := p.planExpiry(ctx, with.of(name), time.Time{})
		switch {
		case err == nil:
			plan.Rollup = true
			plans = append(plans, plan)
		case !errors.Is(err, collection.ErrNeverExpires) && !errors.Is(err, collection.ErrNotSetUp):
			return plans, err
		}
	}
	return plans, nil
}

// planExpiry determines what would be deleted of a time series, or of a level of rollups.
func (p *Program) planExpiry(ctx context.Context, s timeSeries, before time.Time) (*expiryView, error) {
	selection, until, err := s.Expired(ctx, before)
	switch {
	case errors.Is(err, collection.ErrNotSetUp):
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("%s: %w", s.name, err)
	}
	amount, err := p.amountOf(ctx, s.name, selection)
	if err != nil {
		return nil, err
	}
	return &expiryView{editPlan: editPlan{s.name, true}, Before: until.UTC(), Selected: *amount, selection: selection}, nil
}
