package bench

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// These are orders of the measurements of one series in the log.
const (
	InOrder  = "in"       // ordered by time
	Shuffled = "shuffled" // in an order independent of their times
)

// Codecs are the names of the compressions that a Load may use.
var Codecs = []string{"none", "snappy", "lz4", "zstd", "gzip"}

// Load describes the content of a topic. Each record is one measurement, a JSON object with a time, a meta and numbers.
type Load struct {
	Records int `json:"records"`
	// Series is the number of series, which take turns. Record i belongs to series i modulo Series.
	Series int `json:"series"`
	// Fields is the number of numbers in an event.
	Fields int `json:"fields"`
	// EventBytes is the minimum length of an event. A text extends shorter events. Zero means no minimum.
	EventBytes int `json:"event_bytes"`
	// Order is InOrder or Shuffled.
	Order string `json:"order"`
	// Late is the share of measurements, from 0 to 1, that come a minute to an hour after their time.
	Late float64 `json:"late"`
	// Step is the time between two measurements of a series, at least a millisecond. Start is the time of the first ones.
	Step  time.Duration `json:"step_ns"`
	Start time.Time     `json:"start"`
	// Codec is one of Codecs.
	Codec string `json:"codec"`
	// Partitions is the number of partitions of the topic. All records of a series are in one partition.
	Partitions int `json:"partitions"`
}

// Base returns the default load of figures, with 10,000 series, five fields and 156 bytes per event.
func Base() Load {
	return Load{
		Records: 1_000_000, Series: 10_000, Fields: 5, Order: InOrder, Step: time.Second,
		Start: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), Codec: "none", Partitions: 4,
	}
}

// Validate returns an error for everything that is wrong with the load.
func (l Load) Validate() error {
	var wrong []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			wrong = append(wrong, fmt.Errorf(format, args...))
		}
	}
	check(l.Records >= 1, "%d records: at least one is needed", l.Records)
	check(l.Series >= 1, "%d series: at least one is needed", l.Series)
	check(l.Fields >= 1 && l.Fields <= 10_000, "%d fields, not 1 to 10,000", l.Fields)
	check(l.EventBytes >= 0 && l.EventBytes <= maxEventBytes, "events of %d bytes, not 0 to %d", l.EventBytes, maxEventBytes)
	check(l.Order == InOrder || l.Order == Shuffled, "order %q, not %s or %s", l.Order, InOrder, Shuffled)
	check(l.Late >= 0 && l.Late <= 1, "a late share of %g, not 0 to 1", l.Late)
	check(l.Step >= time.Millisecond, "a step of %s, not 1ms or more", l.Step)
	check(slices.Contains(Codecs, l.Codec), "codec %q, not one of %s", l.Codec, strings.Join(Codecs, ", "))
	check(l.Partitions >= 1 && l.Partitions <= 1000, "%d partitions, not 1 to 1,000", l.Partitions)
	return errors.Join(wrong...)
}

// maxEventBytes fits into a batch of the broker's default limit of 1 MB.
const maxEventBytes = 900 << 10

// of returns the number of records of a partition.
func (l Load) of(partition int) int64 {
	whole, rest := l.Records/l.Series, l.Records%l.Series
	n := 0
	for series := partition; series < l.Series; series += l.Partitions {
		n += whole
		if series < rest {
			n++
		}
	}
	return int64(n)
}
