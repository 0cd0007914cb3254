package main

import (
	"encoding/json"
	"fmt"
	"io"
	"time"
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

func printSample(w io.Writer, s *SampleView) error {
	fmt.Fprintf(w, "The newest %d records of %s: %d measurements", s.Records, s.Topic, s.Measurements)
	if s.Tombstones > 0 {
		fmt.Fprintf(w, ", %d tombstones", s.Tombstones)
	}
	fmt.Fprintln(w)
	for _, d := range s.Examples {
		fmt.Fprintf(w, "  %s\n", shorten(printable(string(d)), 400))
	}
	table := newTable(w)
	if len(s.Bad) > 0 {
		fmt.Fprintln(table, "\nLETTERS\tREASON\tRECORD\tEXAMPLE")
		for _, b := range s.Bad {
			fmt.Fprintf(table, "%d\t%s\t%s\t%s\n", b.Count, b.Reason, b.From, shorten(printable(withoutReason(b.Example, b.Reason)), 160))
		}
	}
	if s.Buckets > 0 {
		if err := table.Flush(); err != nil {
			return err
		}
		fmt.Fprintf(w, "\nThey would be %d series in %d buckets, %.1f measurements in each; the fullest:\n", s.Series, s.Buckets, float64(s.Measurements)/float64(s.Buckets))
		fmt.Fprintln(table, "MEASUREMENTS\tBYTES\tFIRST\tLAST\tPARTITION\tMETA")
		for _, b := range s.Largest {
			fmt.Fprintf(table, "%d\t%d\t%s\t%s\t%s\t%s\n", b.Measurements, b.Bytes, formatTime(b.First), formatTime(b.Last), b.From, shorten(printable(string(b.Meta)), 100))
		}
	}
	if len(s.Fields) > 0 {
		fmt.Fprintln(table, "\nVALUES\tFIELD OF META")
		for _, f := range s.Fields {
			fmt.Fprintf(table, "%d\t%s\n", f.Values, printable(fieldName(f)))
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w)
	return err
}
