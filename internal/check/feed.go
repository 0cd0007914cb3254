package check

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"waterwheel/bucketer"
	"waterwheel/internal/measurement"
	"waterwheel/internal/record"
	"waterwheel/internal/words"
)

// Bounds of the read part of a feed.
const (
	feedBytes   = 16 << 20
	feedRecords = 100_000
)

// FeedName stands where a sample's topic does.
const FeedName = "standard input"

// ErrNoEvents is the error of a feed without a record.
var ErrNoEvents = errors.New("there are no events on standard input: send one a line, or a JSON array of them")

// Feed is what the events of a feed, one a line or one JSON text, would become, as if they had been made at a time in
// milliseconds. Where each line is a record as kcat -J prints it, its key, partition and timestamp are those of the line. It adds what it finds. More than the first 16 MiB or 100,000 events are not looked at.
func Feed(in io.Reader, at int64, decoding measurement.Options, bucketing bucketer.Options, found *Findings) (Sample, error) {
	s, err := newSampler(FeedName, decoding, bucketing)
	if err != nil {
		return Sample{}, err
	}
	values, whole, err := readFeed(in)
	if err != nil {
		return Sample{}, fmt.Errorf("reading standard input: %w", err)
	}
	if len(values) == 0 {
		return Sample{}, ErrNoEvents
	}
	list, isLog := asLogged(values)
	s.evidence.isLog = isLog
	for i, value := range values {
		r := loggedRecord{Record: record.Record{Offset: int64(i), Timestamp: at, Value: value}}
		if isLog {
			r = list[i]
		}
		if s.take(r.partition, &r.Record); s.unknown != nil {
			return Sample{}, s.unknown
		}
	}
	view := s.finish()
	if !whole {
		found.Note("sample of "+FeedName, "only the first %s looked at", words.Count(len(values), "event")+words.Form(len(values), " was", " were"))
	}
	s.judge(found)
	return view, nil
}

// readFeed reads records' values. Whole: to the end.
func readFeed(in io.Reader) (values [][]byte, whole bool, err error) {
	text, err := io.ReadAll(io.LimitReader(in, feedBytes+1))
	if err != nil {
		return nil, false, err
	}
	if whole = len(text) <= feedBytes; !whole {
		text = text[:feedBytes]
	}
	values, isLines := readLines(text)
	if !isLines {
		values = readTexts(text, values)
	}
	if !whole && len(values) > 1 {
		values = values[:len(values)-1] // it is cut
	}
	if len(values) > feedRecords {
		values, whole = values[:feedRecords], false
	}
	return values, whole, nil
}

// readLines cuts a feed into its lines. False means that the first begins a JSON text of several, or holds several records.
func readLines(text []byte) (values [][]byte, isLines bool) {
	for line := range bytes.Lines(text) {
		if line = bytes.TrimSpace(line); len(line) > 0 {
			values = append(values, line)
		}
	}
	isLines = len(values) == 0 || values[0][0] != '[' && (values[0][0] != '{' || json.Valid(values[0]))
	return values, isLines
}

// readTexts cuts JSON texts that follow each other, and arrays into their elements; a feed whose first text is no JSON into its
// lines. A later part that is no JSON is one value to the end.
func readTexts(text []byte, lines [][]byte) (values [][]byte) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	for {
		from := decoder.InputOffset()
		var value json.RawMessage
		err := decoder.Decode(&value)
		switch {
		case errors.Is(err, io.EOF):
			return values
		case err != nil && len(values) == 0:
			return lines
		case err != nil:
			return append(values, bytes.TrimSpace(text[from:]))
		}
		var elements []json.RawMessage
		if value[0] != '[' || json.Unmarshal(value, &elements) != nil {
			values = append(values, value)
			continue
		}
		for _, element := range elements {
			values = append(values, element)
		}
	}
}
