package redrive

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"waterwheel/internal/record"
)

// intentMark begins the metadata of a commit made before a parcel is produced.
const intentMark = "redrive"

// maxIntent bounds the bytes of an intent: brokers take 4096 bytes of metadata.
const maxIntent = 3000

// longestTopic is how long the name of a topic may be, in bytes.
const longestTopic = 249

// intent is committed before a parcel goes back: that the letters from the commit's offset to before until may be on their
// way, and where the logs that they go to ended before. Whoever finds it in a commit looks there for what has arrived.
type intent struct {
	until int64
	ends  map[record.Partition]int64
}

// String is the metadata of the commit: "redrive until=<offset> <topic>/<partition>=<end> …".
func (i *intent) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s until=%d", intentMark, i.until)
	places := slices.SortedFunc(maps.Keys(i.ends), record.Partition.Compare)
	for _, p := range places {
		fmt.Fprintf(&b, " %s=%d", p, i.ends[p])
	}
	return b.String()
}

// intentBytes bounds what a partition of a topic, whose name has so many bytes, adds to an intent.
func intentBytes(topic int) int { return topic + 34 }

// parseIntent reads the metadata of a commit. Nil means that the commit was no intent.
func parseIntent(metadata string) (*intent, error) {
	fields := strings.Fields(metadata)
	if len(fields) == 0 || fields[0] != intentMark {
		return nil, nil
	}
	broken := func(err error) error { return fmt.Errorf("reading the commit's metadata %q: %w", metadata, err) }
	i := &intent{until: -1, ends: map[record.Partition]int64{}}
	for _, field := range fields[1:] {
		if until, ok := strings.CutPrefix(field, "until="); ok {
			offset, err := strconv.ParseUint(until, 10, 63)
			if err != nil {
				return nil, broken(err)
			}
			i.until = int64(offset)
			continue
		}
		end, err := record.ParsePlace(strings.Replace(field, "=", "/", 1))
		if err != nil {
			return nil, broken(err)
		}
		i.ends[end.Partition] = end.Offset
	}
	if i.until < 0 {
		return nil, broken(errors.New("it has no until"))
	}
	return i, nil
}
