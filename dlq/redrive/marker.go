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

// markerPrefix begins the metadata of a commit made before a batch is produced.
const markerPrefix = "redrive"

// maxMarker bounds the bytes of a marker: brokers take 4096 bytes of metadata.
const maxMarker = 3000

// longestTopic is how long the name of a topic may be, in bytes.
const longestTopic = 249

// marker is committed before a batch goes back: that the letters from the commit's offset to before until may be on their
// way, and where the logs that they go to ended before. Whoever finds it in a commit looks there for what has arrived.
type marker struct {
	until int64
	ends  map[record.Partition]int64
}

// String is the metadata of the commit: "redrive until=<offset> <topic>/<partition>=<end> …".
func (m *marker) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s until=%d", markerPrefix, m.until)
	places := slices.SortedFunc(maps.Keys(m.ends), record.Partition.Compare)
	for _, p := range places {
		fmt.Fprintf(&b, " %s=%d", p, m.ends[p])
	}
	return b.String()
}

// markerBytes bounds what a partition of a topic, whose name has so many bytes, adds to a marker.
func markerBytes(topic int) int { return topic + 34 }

// parseMarker reads the metadata of a commit. Nil means that the commit was no marker.
func parseMarker(metadata string) (*marker, error) {
	fields := strings.Fields(metadata)
	if len(fields) == 0 || fields[0] != markerPrefix {
		return nil, nil
	}
	broken := func(err error) error { return fmt.Errorf("reading the commit's metadata %q: %w", metadata, err) }
	m := &marker{until: -1, ends: map[record.Partition]int64{}}
	for _, field := range fields[1:] {
		if until, ok := strings.CutPrefix(field, "until="); ok {
			offset, err := strconv.ParseUint(until, 10, 63)
			if err != nil {
				return nil, broken(err)
			}
			m.until = int64(offset)
			continue
		}
		end, err := record.ParsePlace(strings.Replace(field, "=", "/", 1))
		if err != nil {
			return nil, broken(err)
		}
		m.ends[end.Partition] = end.Offset
	}
	if m.until < 0 {
		return nil, broken(errors.New("it has no until"))
	}
	return m, nil
}
