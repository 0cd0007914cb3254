package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/cli/text"
	"waterwheel/sink"
)

// IndexesView is what collection indexes tells of a time series.
type IndexesView struct {
	Series  string      `json:"collection"`
	Indexes []IndexView `json:"indexes"`
	// Missing are the paths of META_INDEXES that no index serves; Unasked the indexes made for others.
	Missing []string `json:"missing,omitempty"`
	Unasked []string `json:"unasked,omitempty"`
	// Gone are the definitions whose index somebody has dropped.
	Gone    []string `json:"gone,omitempty"`
	NoSizes string   `json:"sizesUnknown,omitempty"` // why
	NoUses  string   `json:"usesUnknown,omitempty"`  // why
}

// IndexView is one index.
type IndexView struct {
	Name string         `json:"name"`
	Kind sink.IndexKind `json:"kind"`
	// Keys are those on measurements, null where there is no such index; documents are Extended JSON.
	Keys       json.RawMessage `json:"keys"`
	BucketKeys json.RawMessage `json:"bucketKeys"`
	Partial    json.RawMessage `json:"partialFilterExpression,omitempty"`
	// ExpireAfterSeconds is the age of the measurements that it deletes.
	ExpireAfterSeconds *int64     `json:"expireAfterSeconds,omitempty"`
	Hidden             bool       `json:"hidden"`
	Building           bool       `json:"building"`
	Kept               bool       `json:"kept"`          // its definition is kept
	Asked              bool       `json:"byMetaIndexes"` // META_INDEXES has made it
	Bytes              *int64     `json:"bytes"`         // null: not known
	Uses               *int64     `json:"uses"`          // null: not known
	Since              *time.Time `json:"since,omitempty"`
}

func indexesView(series string, list sink.IndexList, metaIndexes []string) IndexesView {
	compared := list.CompareMetaIndexes(metaIndexes)
	v := IndexesView{Series: series, Indexes: []IndexView{}, Gone: list.Gone, Missing: compared.Missing, Unasked: compared.Unasked}
	for _, i := range list.Indexes {
		one := indexView(i)
		if i.Kind == sink.IndexOfExpiry {
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

func indexView(i sink.Index) IndexView {
	v := IndexView{
		Name: i.Name, Kind: i.Kind, Keys: extended(i.User.Keys), BucketKeys: extended(i.Buckets.Keys), Hidden: i.Hidden,
		Building: i.Building, Kept: i.Kept, Asked: i.Asked,
	}
	options := i.User.Options
	if i.Kind == sink.IndexForeign {
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

// extended writes a document as relaxed Extended JSON; null for none.
func extended(d bson.Raw) json.RawMessage {
	if d == nil {
		return json.RawMessage("null")
	}
	out, err := bson.MarshalExtJSON(d, false, false)
	if err != nil { // names that JSON cannot have
		out, _ = json.Marshal(d.String())
	}
	return out
}

// keys are those on measurements, else those on buckets.
func (v IndexView) keys() string {
	if v.Kind == sink.IndexForeign || string(v.Keys) == "null" {
		return text.Printable(string(v.BucketKeys))
	}
	return text.Printable(string(v.Keys))
}

// whose says who has made an index, and for what.
func (v IndexView) whose() string {
	switch v.Kind {
	case sink.IndexOfID:
		return "MongoDB"
	case sink.IndexOfSeries, sink.IndexOfView, sink.IndexOfSources, sink.IndexOfSegments, sink.IndexOfBounds, sink.IndexOfExpiry:
		return "waterwheel (" + string(v.Kind) + ")"
	case sink.IndexForeign:
		return "foreign, on buckets"
	}
	if v.Asked {
		return "META_INDEXES"
	}
	return "user"
}

// words say what is special about an index.
func (v IndexView) words() string {
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
		if v.Kind == sink.IndexForeign {
			of = "buckets"
		}
		words = append(words, fmt.Sprintf("deletes %s after %v", of, time.Duration(*v.ExpireAfterSeconds)*time.Second))
	}
	return strings.Join(words, ", ")
}

// printIndexes prints a table for each time series, and what is to be said about it.
func printIndexes(w io.Writer, views []IndexesView) {
	for i, v := range views {
		if i > 0 {
			fmt.Fprintln(w)
		}
		fmt.Fprintf(w, "Indexes of %s\n\n", v.Series)
		table := text.NewTable(w, "NAME", "KEYS", "WHOSE", "SIZE", "USES", "SINCE", "STATE")
		for _, one := range v.Indexes {
			size, since := text.Unknown, text.Unknown
			if one.Bytes != nil {
				size = text.Bytes(*one.Bytes)
			}
			if one.Since != nil {
				since = text.Time(*one.Since)
			}
			state := one.words()
			if state == "" {
				state = text.Unknown
			}
			table.Row(one.Name, one.keys(), one.whose(), size, text.Number(one.Uses), since, state)
		}
		table.Flush()
		v.printNotes(w)
	}
}

func (v IndexesView) printNotes(w io.Writer) {
	var notes []string
	note := func(format string, args ...any) { notes = append(notes, fmt.Sprintf(format, args...)) }
	if v.NoSizes != "" {
		note("Sizes are not known: %s.", text.Printable(v.NoSizes))
	}
	if v.NoUses != "" {
		note("Uses are not known: %s.", text.Printable(v.NoUses))
	}
	for _, path := range v.Missing {
		note("META_INDEXES asks for %s, and no index serves it: `waterwheel init` makes it.", text.Printable(path))
	}
	for _, name := range v.Unasked {
		note("META_INDEXES does not ask for %s any more: `waterwheel collection drop-index %[1]s` drops it.", text.Printable(name))
	}
	for _, name := range v.Gone {
		note("The index %s is gone, its definition is kept: make it again, or `waterwheel collection drop-index %[1]s` takes that away.", text.Printable(name))
	}
	if len(notes) > 0 {
		fmt.Fprintf(w, "\n%s\n", strings.Join(notes, "\n"))
	}
}
