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

// These bound the part of a feed that is read.
const (
	feedBytes   = 16 << 20
	feedRecords = 100_000
)

// FeedName takes the place of the topic in a sample of a feed.
const FeedName = "standard input"

// ErrNoEvents means that a feed has no event.
var ErrNoEvents = errors.New("standard input contains no events: send one event per line, or a JSON array of events")

// Feed returns what the events of a feed would become. The feed has one event per line, or JSON texts. at is the time of the
// records, in milliseconds since 1970. If each line is a record as kcat -J prints it, Feed uses the line's key, partition and
// timestamp. It adds what it finds to found. It ignores what comes after the first 16 MiB or 100,000 events.
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
		found.Note("sample of "+FeedName, "only the first %s checked", words.Count(len(values), "event")+words.Form(len(values), " was", " were"))
	}
	s.judge(found)
	return view, nil
}

// readFeed reads records' values. whole reports that it read the feed to its end.
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
		values = values[:len(values)-1] // the last value is cut
	}
	if len(values) > feedRecords {
		values, whole = values[:feedRecords], false
	}
	return values, whole, nil
}

// readLines splits a feed into lines. False means that the first line only begins a JSON text, or holds several records.
func readLines(text []byte) (values [][]byte, isLines bool) {
	for line := range bytes.Lines(text) {
		if line = bytes.TrimSpace(line); len(line) > 0 {
			values = append(values, line)
		}
	}
	isLines = len(values) == 0 || values[0][0] != '[' && (values[0][0] != '{' || json.Valid(values[0]))
	return values, isLines
}

// readTexts splits consecutive JSON texts, and arrays into their elements. If the first text is not JSON, it returns the lines.
// If a later part is not JSON, everything from there on is one value.
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

// loggedRecord is a record with its partition.
type loggedRecord struct {
	record.Record
	partition int32
}

// asLogged parses values as records printed by kcat -J: with key, payload, partition, timestamp and headers. False means that a
// value is something else.
func asLogged(values [][]byte) (list []loggedRecord, ok bool) {
	for i, value := range values {
		var line struct {
			Topic     *string
			Partition *int32
			Offset    *int64
			TS        int64
			Headers   []*string
			Key       *string
			Payload   *string
		}
		line.TS = -1
		if !bytes.Contains(value, []byte(`"payload"`)) || json.Unmarshal(value, &line) != nil || line.Topic == nil || line.Partition == nil || line.Offset == nil {
			return nil, false
		}
		r := record.Record{Offset: int64(i), Timestamp: line.TS, Key: bytesOf(line.Key), Value: bytesOf(line.Payload), Headers: encodeHeaders(line.Headers)}
		list = append(list, loggedRecord{r, *line.Partition})
	}
	return list, len(list) > 0
}

func bytesOf(text *string) []byte {
	if text == nil {
		return nil
	}
	return []byte(*text)
}

// encodeHeaders encodes headers as Kafka does. list has names and values in turn.
func encodeHeaders(list []*string) []byte {
	var headers []record.Header
	for i := 0; i+1 < len(list); i += 2 {
		headers = append(headers, record.Header{Key: string(bytesOf(list[i])), Value: bytesOf(list[i+1])})
	}
	return record.EncodeHeaders(headers)
}
