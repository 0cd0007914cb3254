package main

import (
	"bytes"
	"fmt"
	"io"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/cmd/consumer/internal/text"
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

// String is short.
func (m metaText) String() string {
	if m.IsZero() {
		return "(no meta)"
	}
	written, err := m.MarshalJSON()
	if err != nil {
		return fmt.Sprintf("a malformed %s", m.Type)
	}
	return text.Shorten(string(written), shownMeta)
}

func amountText(a sink.Amount) string {
	return fmt.Sprintf("%s with %s", text.Count(int(a.Buckets), "bucket"), text.Count(int(a.Measurements), "measurement"))
}

func seriesText(n int) string { return fmt.Sprintf("%d series", n) }

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
		fmt.Fprintf(w, "Left alone: %s, which others closed, edited or deleted meanwhile.\n", text.Count(int(e.Missed), "bucket"))
	}
	if e.Appeared > 0 {
		fmt.Fprintf(w, "Left alone: %s of series that appeared meanwhile; the same command finds them.\n", text.Count(int(e.Appeared), "bucket"))
	}
	if e.Unsure > 0 {
		fmt.Fprintf(w, "Not known: %s, of which no answer came.\n", text.Count(int(e.Unsure), "bucket"))
	}
}
