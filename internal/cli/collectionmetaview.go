package cli

import (
	"bytes"
	"fmt"
	"io"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/cli/text"
	"waterwheel/internal/words"
	"waterwheel/sink"
)

// shownMeta is how many characters of a meta a table shows.
const shownMeta = 80

// metaText is a meta as people and JSON see it.
type metaText struct{ bson.RawValue }

// IsZero tells of a series without meta; JSON leaves it out.
func (m metaText) IsZero() bool { return m.Type == 0 }

// MarshalJSON writes Extended JSON, in its relaxed form.
func (m metaText) MarshalJSON() ([]byte, error) {
	document, err := bson.MarshalExtJSON(bson.D{{Key: "m", Value: m.RawValue}}, false, false)
	if err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(bytes.TrimPrefix(document, []byte(`{"m":`)), []byte(`}`)), nil
}

// String is the whole of it.
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

// cell is the meta in a table.
func (m metaText) cell(w io.Writer) string { return text.Fit(w, m.String(), shownMeta) }

// MetaUpdate is what update-meta does to a time series.
type MetaUpdate struct {
	Series string `json:"collection"`
	DryRun bool   `json:"dryRun"`
	// Changed is what is changed, in SeriesCount series, the first of which are listed in Changes.
	Changed     sink.Amount   `json:"changed"`
	SeriesCount int           `json:"series"`
	Changes     []ChangedMeta `json:"changes"`
	// Joining is how many of the series become one with another; of the first new metas if Cut.
	Joining int  `json:"joining"`
	Cut     bool `json:"joiningCut,omitempty"`
	// Unchanged is selected, and stays as it is.
	Unchanged sink.Amount `json:"unchanged"`
	// ClosedLeft is in closed buckets, which are left alone.
	ClosedLeft sink.Amount `json:"closedLeft"`
	// Repeats: a second run would change again what the first has changed.
	Repeats bool         `json:"changesAgain"`
	Edited  *sink.Edited `json:"edited,omitempty"`
}

// ChangedMeta is a series that becomes another.
type ChangedMeta struct {
	Before metaText `json:"before,omitzero"`
	After  metaText `json:"after,omitzero"`
	sink.Amount
	Joins bool `json:"joins"` // there is, or will be, another series with this meta
}

// wayOut is what to do after the update was interrupted.
func (v *MetaUpdate) wayOut() string {
	if v.Repeats {
		return "the same command would change again what is changed already, so name the rest by another filter"
	}
	return "the same command changes the rest"
}

func (v *MetaUpdate) print(w io.Writer) {
	verb := "would be changed"
	if !v.DryRun {
		verb = "were to be changed"
	}
	fmt.Fprintf(w, "%s: %s of %s %s.\n", v.Series, amountText(v.Changed), seriesText(v.SeriesCount), verb)
	if len(v.Changes) > 0 {
		table := text.NewTable(w, "BEFORE", "AFTER", "BUCKETS", "MEASUREMENTS", "")
		for _, one := range v.Changes {
			note := ""
			if one.Joins {
				note = "becomes one with another series"
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
		fmt.Fprintf(w, "%s%s %s one with another, which nothing takes apart again.\n", least, seriesText(v.Joining), words.Form(v.Joining, "becomes", "become"))
	}
	if !v.Unchanged.IsZero() {
		fmt.Fprintf(w, "Unchanged by this update: %s.\n", amountText(v.Unchanged))
	}
	printClosed(w, v.ClosedLeft)
	if v.Repeats && v.DryRun {
		fmt.Fprintln(w, "The update would change its own results again: a run that is interrupted cannot be finished by repeating it.")
	}
	printEdited(w, v.Edited, "changed")
}

func amountText(a sink.Amount) string {
	said := fmt.Sprintf("%s with %s", words.Count(a.Buckets, "bucket"), words.Count(a.Measurements, "measurement"))
	return said
}

func seriesText(n int) string { return words.Count(n, "series") }

// printMore tells of series that are not listed.
func printMore(w io.Writer, n int) {
	if n > 0 {
		fmt.Fprintf(w, "… and %s more; --series lists as many as you like\n", seriesText(n))
	}
}

// printClosed tells of closed buckets that are left alone.
func printClosed(w io.Writer, left sink.Amount) {
	if left.Buckets > 0 {
		fmt.Fprintf(w, "Closed buckets are left as they are, as MongoDB does: %s of these series. --closed includes them.\n", amountText(left))
	}
}

// printEdited tells what became of an edit; nil: there was none.
func printEdited(w io.Writer, e *sink.Edited, done string) {
	if e == nil {
		fmt.Fprintln(w, "Nothing was changed.")
		return
	}
	fmt.Fprintf(w, "Done: %s %s.\n", amountText(e.Done), done)
	if e.Missed > 0 {
		fmt.Fprintf(w, "Left alone: %s, which others closed, edited or deleted meanwhile.\n", words.Count(e.Missed, "document"))
	}
	if e.Appeared > 0 {
		fmt.Fprintf(w, "Left alone: %s of series that appeared meanwhile; the same command finds them.\n", words.Count(e.Appeared, "bucket"))
	}
	if e.Unsure > 0 {
		fmt.Fprintf(w, "Not known: %s, of which no answer came.\n", words.Count(e.Unsure, "document"))
	}
}
