package main

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"waterwheel/cmd/consumer/internal/text"
)

// What of a sample is shown.
const (
	shownMeasurements = 3
	shownBuckets      = 10
	shownFields       = 5
)

// SampleView is what the newest records of a topic would become.
type SampleView struct {
	Topic string `json:"topic"`
	// Records were read; Tombstones of them have a null value and are skipped.
	Records      int `json:"records"`
	Tombstones   int `json:"tombstones"`
	Measurements int `json:"measurements"`
	Series       int `json:"series"`
	Buckets      int `json:"buckets"`
	// Bad would become letters, by reason.
	Bad []BadView `json:"bad,omitempty"`
	// Examples are measurements as they would be stored, Largest the buckets with the most of them.
	Examples []Document   `json:"examples"`
	Largest  []BucketView `json:"largest"`
	// Fields are those of meta, the most varied first.
	Fields []FieldView `json:"fields,omitempty"`
}

// BadView is the records or elements that would become letters for one reason.
type BadView struct {
	Reason string `json:"reason"`
	Count  int    `json:"count"`
	// Example is what is wrong with one of them, at From.
	Example string `json:"example"`
	From    string `json:"from"`
}

// BucketView is a bucket that would be written.
type BucketView struct {
	From         string    `json:"from"` // topic/partition
	Meta         Document  `json:"meta"`
	First        time.Time `json:"first"` // rounded, as the bucket has it
	Last         time.Time `json:"last"`
	Measurements int32     `json:"measurements"`
	Bytes        int       `json:"bytes"`
}

// Document is relaxed Extended JSON.
type Document = json.RawMessage

func printSample(w io.Writer, s *SampleView) {
	fmt.Fprintf(w, "The newest %d records of %s: %d measurements", s.Records, s.Topic, s.Measurements)
	if s.Tombstones > 0 {
		fmt.Fprintf(w, ", %d tombstones", s.Tombstones)
	}
	fmt.Fprintln(w)
	for _, d := range s.Examples {
		fmt.Fprintf(w, "  %s\n", text.Shorten(text.Printable(string(d)), 400))
	}
	table := text.NewTable(w)
	if len(s.Bad) > 0 {
		table.Title("\nLETTERS", "REASON", "RECORD", "EXAMPLE")
		for _, b := range s.Bad {
			table.Row(b.Count, b.Reason, b.From, text.Shorten(text.Printable(withoutReason(b.Example, b.Reason)), 160))
		}
	}
	if s.Buckets > 0 {
		table.Flush()
		fmt.Fprintf(w, "\nThey would be %d series in %d buckets, %.1f measurements in each; the fullest:\n", s.Series, s.Buckets, float64(s.Measurements)/float64(s.Buckets))
		table.Title("MEASUREMENTS", "BYTES", "FIRST", "LAST", "PARTITION", "META")
		for _, b := range s.Largest {
			table.Row(b.Measurements, b.Bytes, b.First, b.Last, b.From, text.Shorten(text.Printable(string(b.Meta)), 100))
		}
	}
	if len(s.Fields) > 0 {
		table.Title("\nVALUES", "FIELD OF META")
		for _, f := range s.Fields {
			table.Row(f.Values, fieldName(f))
		}
	}
	table.Flush()
	fmt.Fprintln(w)
}
