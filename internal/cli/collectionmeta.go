package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/cli/text"
	"waterwheel/internal/collection"
	"waterwheel/internal/mongodb"
	"waterwheel/internal/timeseries"
	"waterwheel/internal/words"
	"waterwheel/sink"
)

// aboutClosed is the part of the help of the commands on metas about closed buckets and running consumers.
const aboutClosed = "The command selects whole series: the filter may name the meta field and its parts, nothing else. Like MongoDB's\n" +
	"own time series, it skips closed buckets, which are full or past their time span. The output counts them, and\n" +
	"--closed includes them. No consumer writes to a closed bucket any more, so --closed is safe. Without --closed a\n" +
	"series may be edited only in part. Buckets made from segments are always included.\n\n" +
	"The command edits buckets only. It first asks the running consumers to move measurements from segments into buckets,\n" +
	"and waits about a minute plus COMPACT_VISIBILITY_DELAY. If no consumer does this, the command ends after at most three\n" +
	"minutes, edits nothing, and says what to start. A --dry-run does not wait, and ignores measurements in segments.\n\n"

// metaFlags are the flags of the commands that edit whole series.
type metaFlags struct {
	filter, update string
	closed         bool
	series         int
	keepRollups    bool // only for delete-meta
	confirmation
}

func (f *metaFlags) flags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.filter, "filter", "", "query on the meta, as JSON; {} for all series")
	flags.BoolVar(&f.closed, "closed", false, "include closed buckets")
	flags.IntVar(&f.series, "series", 20, "maximum number of series to list")
	f.confirmation.flags(cmd)
}

// check rejects flags that are wrong whatever the settings are.
func (f *metaFlags) check(*cobra.Command, []string) error {
	switch {
	case f.filter == "":
		return usageError{errors.New(`--filter is missing: select series, such as {"meta.sensor": "s-17"}, or {} for all`)}
	case f.series < 0:
		return usageError{fmt.Errorf("--series is %d: it must be 0 or more", f.series)}
	}
	if _, err := jsonFlag("--filter", f.filter); err != nil {
		return err
	}
	return f.confirmation.check()
}

// jsonFlag parses a value of Extended JSON from a flag.
func jsonFlag(flag, text string) (bson.RawValue, error) {
	var any json.RawMessage
	if err := json.Unmarshal([]byte(text), &any); err != nil {
		return bson.RawValue{}, usageError{fmt.Errorf("%s is not JSON: %w (in %.80s); write double quotes around names and strings, and single quotes around the whole value", flag, err, text)}
	}
	const name = "value"
	var document bson.Raw
	if err := bson.UnmarshalExtJSON([]byte(`{"`+name+`": `+text+`}`), false, &document); err != nil {
		return bson.RawValue{}, usageError{fmt.Errorf("%s is not Extended JSON: %w (in %.80s)", flag, err, text)}
	}
	return document.Lookup(name), nil
}

// compacted waits until the measurements in segments are in buckets. A dry run does not wait. left counts its segments, whose
// measurements it ignores.
func (p *Program) compacted(ctx context.Context, database *mongodb.Database, name string, f *metaFlags) (left int, err error) {
	compaction := sink.ContentsOf(database, name).RequestCompaction()
	line := p.progress("waiting for compaction of " + name + ", segments left")
	defer line.End()
	err = through(ctx, func() (progress bool, err error) {
		if f.dryRun {
			left, err = compaction.Left(ctx)
			return false, err
		}
		return compaction.Wait(ctx, func(segments int) { line.At(int64(segments), 0) })
	})
	if err != nil {
		return left, fmt.Errorf("%s: nothing was edited: %w", name, err)
	}
	return left, nil
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

// translated handles the error of a translation to buckets. A rejection is a mistake in the flags.
func translated(series string, err error) error {
	if _, ok := errors.AsType[*timeseries.Error](err); ok {
		return usageError{fmt.Errorf("%s: %w", series, err)}
	}
	return err
}

// definition returns the definition of a time series. It returns an error if the time series does not exist.
func definition(ctx context.Context, database *mongodb.Database, series string) (timeseries.Options, error) {
	options, _, err := collection.Of(database, series).Definition(ctx)
	if errors.Is(err, collection.ErrNotSetUp) {
		return options, fmt.Errorf("there is no time series %s yet: `waterwheel init` and `waterwheel run` create it", series)
	}
	return options, err
}

// edit is a collection.Change or a collection.Deletion.
type edit interface {
	Run(ctx context.Context) error
	Resolve(ctx context.Context) error
	Edited() collection.Edited
}

// These bound how long an edit continues through outages.
const (
	editTries      = 12 // consecutive tries without progress
	editPause      = 250 * time.Millisecond
	longEditPause  = 10 * time.Second
	resolveTimeout = 5 * time.Second
)

// carryOut runs an edit to its end, through outages. If it fails, it finds out how far the edit came.
func carryOut(ctx context.Context, e edit) error {
	err := through(ctx, func() (bool, error) {
		before := e.Edited().Done
		err := e.Run(ctx)
		return e.Edited().Done != before, err
	})
	if err != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), resolveTimeout)
		defer cancel()
		_ = e.Resolve(ctx) // if this fails, the output says for how many buckets the result is unknown
	}
	return err
}

// through retries after outages, as long as there is some progress.
func through(ctx context.Context, try func() (progress bool, err error)) error {
	for tries := 1; ; tries++ {
		progress, err := try()
		if _, ok := errors.AsType[*mongodb.OutageError](err); !ok || ctx.Err() != nil {
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

// noteEdit records an edit of series for the rollups of a time series, before the edit begins.
func (p *Program) noteEdit(ctx context.Context, database *mongodb.Database, series string, metas []bson.RawValue, deletes bool) (noted *sink.RollupEdit, err error) {
	err = through(ctx, func() (bool, error) {
		noted, err = sink.BeginRollupEdit(ctx, collection.Of(database, series).Ports(), database.WriteTimeout(), metas, deletes)
		return false, err
	})
	if err != nil {
		err = fmt.Errorf("%s: nothing was edited: %w", series, err)
	}
	return noted, err
}

// editOver records the end of an edit of series, so that consumers compute the rollups for the last time.
func (p *Program) editOver(ctx context.Context, noted *sink.RollupEdit, edited collection.Edited) error {
	return through(ctx, func() (bool, error) { return false, noted.Done(ctx, edited.Shown) })
}

// shownMeta is the maximum number of characters of a meta in a table.
const shownMeta = 80

// metaText is a meta, formatted for people and JSON.
type metaText struct{ bson.RawValue }

// IsZero reports whether there is no meta. JSON then omits it.
func (m metaText) IsZero() bool { return m.Type == 0 }

// MarshalJSON returns relaxed Extended JSON.
func (m metaText) MarshalJSON() ([]byte, error) {
	document, err := bson.MarshalExtJSON(bson.D{{Key: "m", Value: m.RawValue}}, false, false)
	if err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(bytes.TrimPrefix(document, []byte(`{"m":`)), []byte(`}`)), nil
}

// String returns the whole meta.
func (m metaText) String() string {
	if m.IsZero() {
		return "(no meta)"
	}
	written, err := m.MarshalJSON()
	if err != nil {
		return fmt.Sprintf("a malformed %s", m.Type)
	}
	return string(written)
}

// cell returns the meta for a table.
func (m metaText) cell(w io.Writer) string { return text.Fit(w, m.String(), shownMeta) }

// metaUpdate is the result of update-meta for a time series.
type metaUpdate struct {
	Series string `json:"collection"`
	DryRun bool   `json:"dryRun"`
	// Changed is the amount that is changed, in SeriesCount series. Changes lists the first of them.
	Changed     collection.Amount `json:"changed"`
	SeriesCount int               `json:"series"`
	Changes     []changedMeta     `json:"changes"`
	// Joining is how many of the series merge with another series. If Cut is set, it covers only the first new metas.
	Joining int  `json:"joining"`
	Cut     bool `json:"joiningCut,omitempty"`
	// Unchanged is the amount that is selected but stays as it is.
	Unchanged collection.Amount `json:"unchanged"`
	// ClosedLeft is the amount in closed buckets, which are left alone.
	ClosedLeft collection.Amount `json:"closedLeft"`
	// Segments counts the segments of a dry run. Their measurements are in no other count.
	Segments int `json:"segments,omitempty"`
	// Repeats means that a second run would change again what the first one has changed.
	Repeats bool               `json:"changesAgain"`
	Edited  *collection.Edited `json:"edited,omitempty"`
}

// changedMeta is a series whose meta changes.
type changedMeta struct {
	Before metaText `json:"before,omitzero"`
	After  metaText `json:"after,omitzero"`
	collection.Amount
	Joins bool `json:"joins"` // another series has this meta, or gets it too
}

// wayOut returns what to do after the update was interrupted.
func (v *metaUpdate) wayOut() string {
	if v.Repeats {
		return "do not run the same command again, because it would change the changed series a second time: select the rest with another filter"
	}
	return "run the same command again to change the rest"
}

func (v *metaUpdate) print(w io.Writer) {
	verb := "would be changed"
	if !v.DryRun {
		verb = "were selected"
	}
	fmt.Fprintf(w, "%s: %s of %s %s.\n", v.Series, amountText(v.Changed), seriesText(v.SeriesCount), verb)
	if len(v.Changes) > 0 {
		table := text.NewTable(w, "BEFORE", "AFTER", "BUCKETS", "MEASUREMENTS", "")
		for _, one := range v.Changes {
			note := ""
			if one.Joins {
				note = "merges with another series"
			}
			table.Row(one.Before.cell(w), one.After.cell(w), one.Buckets, one.Measurements, note)
		}
		table.Flush()
	}
	printMore(w, v.SeriesCount-len(v.Changes))
	if v.Joining > 0 {
		least := ""
		if v.Cut {
			least = "at least "
		}
		fmt.Fprintf(w, "%s%s %s with another series. This cannot be undone.\n", least, seriesText(v.Joining), words.Form(v.Joining, "merges", "merge"))
	}
	if !v.Unchanged.IsZero() {
		fmt.Fprintf(w, "Unchanged by this update: %s.\n", amountText(v.Unchanged))
	}
	printClosed(w, v.ClosedLeft)
	printSegments(w, v.Segments)
	if v.Repeats && v.DryRun {
		fmt.Fprintln(w, "A second run of this update would change the series again: do not repeat the command to finish an interrupted run.")
	}
	printEdited(w, v.Edited, "changed")
}

func amountText(a collection.Amount) string {
	said := fmt.Sprintf("%s with %s", words.Count(a.Buckets, "bucket"), words.Count(a.Measurements, "measurement"))
	return said
}

func seriesText(n int) string { return words.Count(n, "series") }

// printMore reports the number of series that are not listed.
func printMore(w io.Writer, n int) {
	if n > 0 {
		fmt.Fprintf(w, "… and %s more; --series sets how many are listed\n", seriesText(n))
	}
}

// printClosed reports closed buckets that are left alone.
func printClosed(w io.Writer, left collection.Amount) {
	if left.Buckets > 0 {
		fmt.Fprintf(w, "Closed buckets are skipped, as MongoDB does: %s of these series. --closed includes them.\n", amountText(left))
	}
}

// printSegments reports segments that a dry run has ignored.
func printSegments(w io.Writer, n int) {
	if n > 0 {
		fmt.Fprintf(w, "Not counted: measurements in %s. The command waits for their compaction, and edits their buckets too; a dry run does not wait.\n",
			words.Count(n, "segment"))
	}
}

// printEdited reports the result of an edit. Nil means that there was none.
func printEdited(w io.Writer, e *collection.Edited, done string) {
	if e == nil {
		fmt.Fprintln(w, "Nothing was changed.")
		return
	}
	fmt.Fprintf(w, "Done: %s %s.\n", amountText(e.Done), done)
	if e.Missed > 0 {
		fmt.Fprintf(w, "Skipped: %s that other processes closed, edited or deleted in the meantime.\n", words.Count(e.Missed, "document"))
	}
	if e.Appeared > 0 {
		fmt.Fprintf(w, "Skipped: %s of series that appeared in the meantime; run the same command again for them.\n", words.Count(e.Appeared, "bucket"))
	}
	if e.Unsure > 0 {
		fmt.Fprintf(w, "Outcome unknown: %s, because MongoDB did not answer.\n", words.Count(e.Unsure, "document"))
	}
}
