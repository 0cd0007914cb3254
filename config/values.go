package config

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"strconv"
	"strings"
	"time"

	"waterwheel/internal/measurement"
	"waterwheel/internal/record"
	"waterwheel/internal/rollup"
	"waterwheel/internal/words"
)

// Size is a number of bytes, written as 125KiB, 2MiB or 1GiB.
type Size int64

// units are the suffixes of a Size, largest first.
var units = []struct {
	suffix string
	bytes  int64
}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}}

// UnmarshalText reads a whole number with a unit. A number without unit counts bytes. M, MB, Mi and MiB mean the same unit in any
// case, as they do in Docker: units are always powers of 1024.
func (s *Size) UnmarshalText(text []byte) error {
	number := strings.TrimRightFunc(string(text), func(r rune) bool { return r < '0' || r > '9' })
	unit := strings.ToLower(strings.TrimSpace(string(text[len(number):])))
	for _, u := range units {
		suffix := strings.ToLower(u.suffix)
		if unit != suffix && unit != suffix[:1] && unit != suffix[:1]+"b" && unit != strings.TrimSuffix(suffix, "b") {
			continue
		}
		n, err := strconv.ParseInt(number, 10, 64)
		if err != nil || n < 0 || n > math.MaxInt64/u.bytes {
			break
		}
		*s = Size(n * u.bytes)
		return nil
	}
	return errors.New("not a size: write a whole number with KiB, MiB or GiB; K, M and G mean the same")
}

// String formats the size in its largest whole unit.
func (s Size) String() string {
	for _, u := range units {
		if s != 0 && int64(s)%u.bytes == 0 {
			return strconv.FormatInt(int64(s)/u.bytes, 10) + u.suffix
		}
	}
	return "0B"
}

// Start is where a group without commits begins to read.
type Start struct {
	// Policy is "earliest", "latest" or "time".
	Policy string
	// Time is the starting time for the policy "time".
	Time time.Time
}

// UnmarshalText reads earliest, latest or a time as measurement.ParseTime does.
func (s *Start) UnmarshalText(text []byte) error {
	switch word := strings.ToLower(string(text)); word {
	case "earliest", "latest":
		*s = Start{Policy: word}
		return nil
	}
	t, ok := measurement.ParseTime(string(text))
	if !ok {
		return errors.New("must be earliest, latest, an RFC 3339 time such as 2026-01-31T00:00:00Z or a date such as 2026-01-31" +
			words.DidYouMean(string(text), []string{"earliest", "latest"}))
	}
	*s = Start{Policy: "time", Time: t}
	return nil
}

// String returns the setting's own notation.
func (s Start) String() string {
	if s.Policy == "time" {
		return s.Time.Format(time.RFC3339Nano)
	}
	return s.Policy
}

// Places is a list of places in Kafka.
type Places []record.Place

// UnmarshalText reads places in the form topic/partition/offset, separated by commas.
func (p *Places) UnmarshalText(text []byte) error {
	*p = nil
	for part := range strings.SplitSeq(string(text), ",") {
		part = strings.TrimSpace(part)
		place, err := record.ParsePlace(part)
		if err != nil {
			return fmt.Errorf("%s %w", quoted(part), err)
		}
		*p = append(*p, place)
	}
	return nil
}

// String returns the setting's own notation.
func (p Places) String() string {
	texts := make([]string, len(p))
	for i := range p {
		texts[i] = p[i].String()
	}
	return strings.Join(texts, ",")
}

// Content is a binary file that a setting names by its path. It is read together with the settings.
type Content struct{ Path, Bytes string }

// UnmarshalText reads the file of a path.
func (c *Content) UnmarshalText(path []byte) error {
	content, err := os.ReadFile(string(path))
	if wrong, is := errors.AsType[*fs.PathError](err); is {
		return fmt.Errorf("cannot be read: %w", wrong.Err)
	}
	if err != nil {
		return err
	}
	*c = Content{string(path), string(content)}
	return nil
}

// String returns the path.
func (c Content) String() string { return c.Path }

// RollupLevels is the value of ROLLUP_LEVELS.
type RollupLevels rollup.Levels

// UnmarshalText reads levels in the notation of ROLLUP_LEVELS.
func (l *RollupLevels) UnmarshalText(text []byte) error {
	levels, err := rollup.ParseLevels(string(text))
	*l = RollupLevels(levels)
	return err
}

// String returns the setting's own notation.
func (l RollupLevels) String() string { return rollup.Levels(l).String() }

// RollupNested is the value of ROLLUP_NESTED. The zero RollupNested means no collection.
type RollupNested struct {
	// Collection may contain {topic}.
	Collection string
	// Aggregations are the statistics of each field. Nil means whole totals.
	Aggregations []rollup.Aggregation
}

// UnmarshalText reads a collection in the notation of ROLLUP_NESTED: a name, and optional aggregations after a colon.
func (n *RollupNested) UnmarshalText(text []byte) (err error) {
	name, list, has := strings.Cut(string(text), ":")
	n.Collection, n.Aggregations = name, nil
	if has {
		n.Aggregations, err = rollup.ParseAggregations(list)
	}
	return err
}

// String returns the setting's own notation.
func (n RollupNested) String() string {
	var list []string
	for _, a := range n.Aggregations {
		list = append(list, string(a))
	}
	if len(list) == 0 {
		return n.Collection
	}
	return n.Collection + ":" + strings.Join(list, ",")
}

// For returns the collection of a topic.
func (n RollupNested) For(topic string) string {
	return strings.ReplaceAll(n.Collection, topicPlaceholder, topic)
}

// Share is a fraction, above 0 and at most 1.
type Share float64

// leastShare is the smallest Share. With less the work would never end.
const leastShare = 0.01

// UnmarshalText reads a decimal fraction.
func (s *Share) UnmarshalText(text []byte) error {
	f, err := strconv.ParseFloat(string(text), 64)
	if err != nil || !(f >= leastShare && f <= 1) {
		return errors.New("is not a share: give a number from 0.01 to 1")
	}
	*s = Share(f)
	return nil
}

// String returns the setting's own notation.
func (s Share) String() string { return strconv.FormatFloat(float64(s), 'g', -1, 64) }

// Rules returns how rows are made.
func (r Rollup) Rules() rollup.Rules { return rollup.Rules{Count: r.CountField, Fields: r.Fields} }
