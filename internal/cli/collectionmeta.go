package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries"
	"waterwheel/sink"
)

// aboutClosed is what the help of the commands on metas says of closed buckets and of running consumers.
const aboutClosed = "Whole series are selected: the filter may name the meta field and what is in it, nothing else. As MongoDB's own\n" +
	"time series do, these commands leave closed buckets alone, which are full or out of their time: the output counts\n" +
	"them, and --closed includes them. Nothing writes a closed bucket any more, so that is safe, and without it a series is split.\n" +
	"Buckets made of segments are always included.\n\n" +
	"Only buckets are edited. So the command first asks the running consumers to move what is in segments into buckets, and\n" +
	"waits for that: about a minute and COMPACT_VISIBILITY_DELAY. Without a consumer that does it the command ends after at most\n" +
	"three minutes, edits nothing, and says what to start. A --dry-run does not wait, and leaves out what is in segments.\n\n"

// metaFlags are those of the commands that edit whole series.
type metaFlags struct {
	filter, update string
	closed         bool
	series         int
	confirmation
}

func (f *metaFlags) flags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.filter, "filter", "", "query on the meta, as JSON; {} for all series")
	flags.BoolVar(&f.closed, "closed", false, "closed buckets as well")
	flags.IntVar(&f.series, "series", 20, "list at most so many series")
	f.confirmation.flags(cmd)
}

// check refuses what no settings make right.
func (f *metaFlags) check(*cobra.Command, []string) error {
	switch {
	case f.filter == "":
		return usageError{errors.New(`--filter is missing: name the series, as {"meta.sensor": "s-17"}; {} for all`)}
	case f.series < 0:
		return usageError{fmt.Errorf("--series is %d: 0 or more", f.series)}
	}
	if _, err := jsonFlag("--filter", f.filter); err != nil {
		return err
	}
	return f.confirmation.check()
}

// jsonFlag reads a value of Extended JSON from a flag.
func jsonFlag(flag, text string) (bson.RawValue, error) {
	var any json.RawMessage
	if err := json.Unmarshal([]byte(text), &any); err != nil {
		return bson.RawValue{}, usageError{fmt.Errorf("%s is no JSON: %w (in %.80s)", flag, err, text)}
	}
	const name = "value"
	var document bson.Raw
	if err := bson.UnmarshalExtJSON([]byte(`{"`+name+`": `+text+`}`), false, &document); err != nil {
		return bson.RawValue{}, usageError{fmt.Errorf("%s is no Extended JSON: %w (in %.80s)", flag, err, text)}
	}
	return document.Lookup(name), nil
}

// compacted waits until what is in segments is in buckets.
func (p *Program) compacted(ctx context.Context, database *sink.Database, name string, f *metaFlags) error {
	if f.dryRun {
		return nil
	}
	line := p.progress("waiting until the segments of " + name + " are compacted, left")
	defer line.End()
	err := through(ctx, func() (bool, error) {
		return false, database.Compacted(ctx, name, func(segments int) { line.At(int64(segments), 0) })
	})
	if err != nil {
		return fmt.Errorf("%s: nothing was edited: %w", name, err)
	}
	return nil
}

// queryFlag is jsonFlag for an object.
func queryFlag(flag, text string) (bson.Raw, error) {
	value, err := jsonFlag(flag, text)
	if err != nil {
		return nil, err
	}
	query, ok := value.DocumentOK()
	if !ok {
		return nil, usageError{fmt.Errorf("%s is %.80s: it must be an object", flag, text)}
	}
	return query, nil
}

// translated is what a translation to buckets returned; its refusals are of what the flags say.
func translated(series string, err error) error {
	if refusal := (*timeseries.Error)(nil); errors.As(err, &refusal) {
		return usageError{fmt.Errorf("%s: %w", series, err)}
	}
	return err
}

// definition is how a time series is defined that must be there.
func definition(ctx context.Context, database *sink.Database, series string) (timeseries.Options, error) {
	options, _, err := database.Definition(ctx, series)
	if errors.Is(err, sink.ErrNotSetUp) {
		return options, fmt.Errorf("there is no time series %s yet: `waterwheel init` makes it, and so does `waterwheel run`", series)
	}
	return options, err
}

// edit is a sink.Change or a sink.Deletion.
type edit interface {
	Run(ctx context.Context) error
	Resolve(ctx context.Context) error
	Edited() sink.Edited
}

// Bounds of how long an edit goes on through outages.
const (
	editTries      = 12 // in a row that bring nothing
	editPause      = 250 * time.Millisecond
	longEditPause  = 10 * time.Second
	resolveTimeout = 5 * time.Second
)

// carryOut runs an edit to its end, through outages. When it was ended otherwise, it finds out how far it came.
func carryOut(ctx context.Context, e edit) error {
	err := through(ctx, func() (bool, error) {
		before := e.Edited().Done
		err := e.Run(ctx)
		return e.Edited().Done != before, err
	})
	if err != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), resolveTimeout)
		defer cancel()
		_ = e.Resolve(ctx) // else the output says of how many buckets it is not known
	}
	return err
}

// through tries again after outages, as long as that brings something now and then.
func through(ctx context.Context, try func() (progress bool, err error)) error {
	for tries := 1; ; tries++ {
		progress, err := try()
		if outage := (*sink.OutageError)(nil); !errors.As(err, &outage) || ctx.Err() != nil {
			return err
		}
		if progress {
			tries = 1
		}
		if tries == editTries {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(min(editPause<<(tries-1), longEditPause)):
		}
	}
}
