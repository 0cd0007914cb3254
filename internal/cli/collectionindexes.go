package cli

import (
	"cmp"
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

	"waterwheel/internal/cli/text"
	"waterwheel/internal/collection"
)

func (p *Program) indexesCommand() *cobra.Command {
	return p.onCollections(&cobra.Command{
		Use:   "indexes",
		Short: "List the indexes of collections, with the fields of measurements that they cover",
		Long: "Lists the indexes of collections: the fields of measurements that each covers, who created it, its size, and how often\n" +
			"MongoDB has used it since the server started. If an index does not correspond to an index on measurements, the list shows\n" +
			"its keys on the buckets. The command also reports which indexes META_INDEXES asks for, and which it no longer asks for.",
		Args: noArguments,
	}, func(ctx context.Context, with collections, _ []string) error {
		views, err := eachSeries(with, func(s timeSeries) (indexesView, error) {
			list, err := s.Indexes(ctx)
			if err != nil {
				return indexesView{}, fmt.Errorf("listing the indexes of %s: %w", s.name, seriesError(s.name, err))
			}
			return newIndexesView(s.name, list, with.config.MongoDB.MetaIndexes), nil
		})
		if err != nil {
			return err
		}
		return p.show(views, func(w io.Writer) { printIndexes(w, views) })
	})
}

func (p *Program) dropIndexCommand() *cobra.Command {
	var told confirmation
	cmd := p.onCollections(&cobra.Command{
		Use:   "drop-index NAME",
		Short: "Drop an index of collections",
		Long: "Drops an index and its stored definition. The indexes that waterwheel needs cannot be dropped: \"collection indexes\" lists\n" +
			"them. To see the cost of dropping an index first, hide it with \"collection hide-index\".",
		Example: "  waterwheel collection drop-index meta.sensor_1_time_-1 --yes",
		Args:    oneArgument("the name of an index"),
	}, func(ctx context.Context, with collections, args []string) error {
		plan, err := planDrop(ctx, with, args[0])
		if err != nil {
			return err
		}
		if do, err := p.confirmed(ctx, told, plan, plan.print); !do {
			return err
		}
		return p.changeIndex(with.series, args[0], "dropping", "dropped", func(series string) (bool, error) {
			return true, with.of(series).DropIndex(ctx, args[0])
		})
	})
	told.flags(cmd)
	return cmd
}

// indexDrop is what drop-index would drop in a time series.
type indexDrop struct {
	Series  string     `json:"collection"`
	DryRun  bool       `json:"dryRun"`
	Index   *indexView `json:"index"` // null means that only its definition is left, or that there is none
	Missing bool       `json:"missing"`
}

type indexDrops []indexDrop

// planDrop looks for the index of a name in all time series. It returns an error if none has it, or if one of them needs it.
func planDrop(ctx context.Context, with collections, name string) (plan indexDrops, err error) {
	var none error
	for _, series := range with.series {
		index, err := with.of(series).DroppableIndex(ctx, name)
		missing := (*collection.NoIndexError)(nil)
		switch {
		case errors.As(err, &missing):
			none = fmt.Errorf("dropping the index of %s: %w", series, err)
		case err != nil:
			return nil, fmt.Errorf("dropping the index of %s: %w", series, seriesError(series, err))
		}
		one := indexDrop{Series: series, DryRun: true, Missing: err != nil}
		if index != nil {
			one.Index = new(newIndexView(*index))
		}
		plan = append(plan, one)
	}
	if slices.ContainsFunc(plan, func(one indexDrop) bool { return !one.Missing }) {
		return plan, nil
	}
	return nil, none
}

func (d indexDrops) print(w io.Writer) {
	for _, one := range d {
		switch {
		case one.Missing:
			fmt.Fprintf(w, "%s: the index does not exist.\n", one.Series)
		case one.Index == nil:
			fmt.Fprintf(w, "%s: MongoDB has no such index; waterwheel's definition of the index would be deleted.\n", one.Series)
		default:
			size := ""
			if one.Index.Bytes != nil {
				size = fmt.Sprintf(" (%s; if queries need it again, it has to be rebuilt)", one.Index.size())
			}
			fmt.Fprintf(w, "%s: the index %s on %s would be dropped%s.\n", one.Series, text.Printable(one.Index.Name), one.Index.keys(), size)
		}
	}
}

func (p *Program) hideIndexCommand(hidden bool) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "hide-index NAME",
		Short: "Hide an index from queries, to see what dropping it would cost",
		Long: "Hides an index: MongoDB keeps it up to date, but uses it for no query. \"collection unhide-index\" makes queries use the\n" +
			"index again immediately, without rebuilding it. The indexes that waterwheel needs cannot be hidden.",
		Example: "  waterwheel collection hide-index meta.sensor_1_time_-1",
		Args:    oneArgument("the name of an index"),
	}
	operation, done := "hiding", "hidden"
	if !hidden {
		cmd.Use, cmd.Short = "unhide-index NAME", "Show a hidden index to queries again"
		cmd.Long, cmd.Example = "Shows a hidden index to queries again.", "  waterwheel collection unhide-index meta.sensor_1_time_-1"
		operation, done = "showing", "shown to queries"
	}
	return p.onCollections(cmd, func(ctx context.Context, with collections, args []string) error {
		return p.changeIndex(with.series, args[0], operation, done, func(series string) (bool, error) {
			return with.of(series).HideIndex(ctx, args[0], hidden)
		})
	})
}

// changeIndex changes the index of a name in one time series after the other. It reports those without the index. It returns an
// error if none has it.
func (p *Program) changeIndex(series []string, index, operation, done string, change func(series string) (bool, error)) error {
	changes := indexChanges{done: done, All: []indexChange{}}
	var none error
	found := false
	for _, name := range series {
		changed, err := change(name)
		if _, ok := errors.AsType[*collection.NoIndexError](err); ok {
			none = fmt.Errorf("%s the index of %s: %w", operation, name, err)
		} else if err != nil {
			return errors.Join(p.show(changes.All, changes.print), fmt.Errorf("%s the index of %s: %w", operation, name, seriesError(name, err)))
		} else {
			found = true
		}
		changes.All = append(changes.All, indexChange{Series: name, Name: index, Changed: changed && err == nil, Missing: err != nil})
	}
	if !found {
		return none
	}
	return p.show(changes.All, changes.print)
}

// indexChange is the result of a change of the index of a time series.
type indexChange struct {
	Series  string `json:"collection"`
	Name    string `json:"name"`
	Changed bool   `json:"changed"`
	Missing bool   `json:"missing"` // there is no such index
}

type indexChanges struct {
	done string
	All  []indexChange
}

func (c indexChanges) print(w io.Writer) {
	for _, one := range c.All {
		state := "is " + c.done
		switch {
		case one.Missing:
			state = "does not exist"
		case !one.Changed:
			state += " already. Nothing was changed"
		}
		fmt.Fprintf(w, "%s: the index %s %s.\n", one.Series, text.Printable(one.Name), state)
	}
}

// indexesView is the output of collection indexes for a time series.
type indexesView struct {
	Series  string      `json:"collection"`
	Indexes []indexView `json:"indexes"`
	// Missing are the paths of META_INDEXES that no index serves. Unasked are the indexes made for other paths.
	Missing []string `json:"missing,omitempty"`
	Unasked []string `json:"unasked,omitempty"`
	// Gone are the definitions whose indexes were dropped.
	Gone    []string `json:"gone,omitempty"`
	NoSizes string   `json:"sizesUnknown,omitempty"` // the reason, if the sizes are unknown
	NoUses  string   `json:"usesUnknown,omitempty"`  // the reason, if the uses are unknown
}

// indexView is one index.
type indexView struct {
	Name string               `json:"name"`
	Kind collection.IndexKind `json:"kind"`
	// Keys are the keys on measurements. They are null if there is no such index. All documents are Extended JSON.
	Keys       json.RawMessage `json:"keys"`
	BucketKeys json.RawMessage `json:"bucketKeys"`
	Partial    json.RawMessage `json:"partialFilterExpression,omitempty"`
	// ExpireAfterSeconds is the age at which the index deletes measurements.
	ExpireAfterSeconds *int64     `json:"expireAfterSeconds,omitempty"`
	Hidden             bool       `json:"hidden"`
	Building           bool       `json:"building"`
	Kept               bool       `json:"kept"`          // its definition is kept
	Asked              bool       `json:"byMetaIndexes"` // made for META_INDEXES
	Bytes              *int64     `json:"bytes"`         // null means unknown
	Uses               *int64     `json:"uses"`          // null means unknown
	Since              *time.Time `json:"since,omitempty"`
}

func newIndexesView(series string, list collection.IndexList, metaIndexes []string) indexesView {
	missing, unasked := list.CompareMetaIndexes(metaIndexes)
	v := indexesView{Series: series, Indexes: []indexView{}, Gone: list.Gone, Missing: missing, Unasked: unasked}
	for _, i := range list.Indexes {
		one := newIndexView(i)
		if i.Kind == collection.IndexOfExpiry {
			one.ExpireAfterSeconds = new(list.Options.ExpireAfterSeconds)
		}
		v.Indexes = append(v.Indexes, one)
	}
	if list.NoSizes != nil {
		v.NoSizes = list.NoSizes.Error()
	}
	if list.NoUses != nil {
		v.NoUses = list.NoUses.Error()
	}
	return v
}

func newIndexView(i collection.Index) indexView {
	v := indexView{
		Name: i.Name, Kind: i.Kind, Keys: extended(i.User.Keys), BucketKeys: extended(i.Buckets.Keys), Hidden: i.Hidden,
		Building: i.Building, Kept: i.Kept, Asked: i.Asked,
	}
	options := i.User.Options
	if i.Kind == collection.IndexForeign {
		options = i.Buckets.Options
	}
	if partial, ok := options.Lookup("partialFilterExpression").DocumentOK(); ok {
		v.Partial = extended(partial)
	}
	if seconds, ok := options.Lookup("expireAfterSeconds").AsInt64OK(); ok {
		v.ExpireAfterSeconds = &seconds
	}
	if i.Bytes >= 0 {
		v.Bytes = &i.Bytes
	}
	if i.Uses >= 0 {
		v.Uses = &i.Uses
	}
	if !i.Since.IsZero() {
		v.Since = &i.Since
	}
	return v
}

// extended formats a document as relaxed Extended JSON. It returns null for nil.
func extended(d bson.Raw) json.RawMessage {
	if d == nil {
		return json.RawMessage("null")
	}
	out, err := bson.MarshalExtJSON(d, false, false)
	if err != nil { // JSON cannot represent the names
		out, _ = json.Marshal(d.String())
	}
	return out
}

// keys returns the keys on measurements, or else those on buckets.
func (v indexView) keys() string {
	if v.Kind == collection.IndexForeign || string(v.Keys) == "null" {
		return text.Printable(string(v.BucketKeys))
	}
	return text.Printable(string(v.Keys))
}

func (v indexView) size() string {
	if v.Bytes == nil {
		return text.Unknown
	}
	return text.Bytes(*v.Bytes)
}

// whose describes who has made an index, and for what.
func (v indexView) whose() string {
	switch v.Kind {
	case collection.IndexOfID:
		return "MongoDB"
	case collection.IndexOfSeries, collection.IndexOfView, collection.IndexOfSources, collection.IndexOfSegments, collection.IndexOfBounds, collection.IndexOfExpiry:
		return "waterwheel (" + string(v.Kind) + ")"
	case collection.IndexForeign:
		return "foreign, on buckets"
	}
	if v.Asked {
		return "META_INDEXES"
	}
	return "user"
}

// words describes the special properties of an index.
func (v indexView) words() string {
	var words []string
	if v.Building {
		words = append(words, "being built")
	}
	if v.Hidden {
		words = append(words, "hidden")
	}
	if v.Partial != nil {
		words = append(words, "only "+text.Printable(string(v.Partial)))
	}
	if v.ExpireAfterSeconds != nil {
		of := "measurements"
		if v.Kind == collection.IndexForeign {
			of = "buckets"
		}
		words = append(words, fmt.Sprintf("deletes %s after %s", of, spanOf(*v.ExpireAfterSeconds)))
	}
	return strings.Join(words, ", ")
}

// printIndexes prints a table for each time series, and notes about it.
func printIndexes(w io.Writer, views []indexesView) {
	for i, v := range views {
		if i > 0 {
			fmt.Fprintln(w)
		}
		fmt.Fprintf(w, "Indexes of %s\n\n", v.Series)
		table := text.NewTable(w, "NAME", "KEYS", "OWNER", "SIZE", "USES", "SINCE", "STATE")
		for _, one := range v.Indexes {
			since := text.Unknown
			if one.Since != nil {
				since = text.Time(*one.Since)
			}
			table.Row(one.Name, one.keys(), one.whose(), one.size(), text.Number(one.Uses), since, cmp.Or(one.words(), text.Unknown))
		}
		table.Flush()
		v.printNotes(w)
	}
}

func (v indexesView) printNotes(w io.Writer) {
	var notes []string
	note := func(format string, args ...any) { notes = append(notes, fmt.Sprintf(format, args...)) }
	if v.NoSizes != "" {
		note("Sizes are not known: %s.", text.Printable(v.NoSizes))
	}
	if v.NoUses != "" {
		note("Uses are not known: %s.", text.Printable(v.NoUses))
	}
	for _, path := range v.Missing {
		note("META_INDEXES asks for %s, but no index supports queries on it: `waterwheel init` creates one.", text.Printable(path))
	}
	for _, name := range v.Unasked {
		note("META_INDEXES no longer asks for %s: `waterwheel collection drop-index %[1]s` drops it.", text.Printable(name))
	}
	for _, name := range v.Gone {
		note("The index %s no longer exists, but its definition is stored: create the index again, or delete the definition with `waterwheel collection drop-index %[1]s`.", text.Printable(name))
	}
	if len(notes) > 0 {
		fmt.Fprintf(w, "\n%s\n", strings.Join(notes, "\n"))
	}
}
