package redrive

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"waterwheel/internal/kafka"
	"waterwheel/internal/kafka/recordbatch"
	"waterwheel/internal/record"
)

// markerPrefix begins the metadata of a commit before a batch is produced.
const markerPrefix = "redrive"

// maxMarker bounds the bytes of a marker. Brokers accept 4096 bytes of metadata.
const maxMarker = 3000

// longestTopic is the maximum length of a topic name, in bytes.
const longestTopic = 249

// marker is committed before a batch goes back. It means that the letters from the commit's offset up to until may be on their
// way. ends are the ends of the logs that they go to, before that. A run that finds a marker searches there for letters that have
// arrived.
type marker struct {
	until int64
	ends  map[record.Partition]int64
}

// String returns the metadata of the commit: "redrive until=<offset> <topic>/<partition>=<end> …".
func (m *marker) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s until=%d", markerPrefix, m.until)
	places := slices.SortedFunc(maps.Keys(m.ends), record.Partition.Compare)
	for _, p := range places {
		fmt.Fprintf(&b, " %s=%d", p, m.ends[p])
	}
	return b.String()
}

// markerBytes bounds how many bytes a partition adds to a marker. topic is the length of the topic's name in bytes.
func markerBytes(topic int) int { return topic + 34 }

// parseMarker parses the metadata of a commit. Nil means that the commit has no marker.
func parseMarker(metadata string) (*marker, error) {
	fields := strings.Fields(metadata)
	if len(fields) == 0 || fields[0] != markerPrefix {
		return nil, nil
	}
	broken := func(err error) error {
		return fmt.Errorf("reading the metadata %q of the committed offset: %w", metadata, err)
	}
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
		return nil, broken(errors.New("the field \"until\" is missing"))
	}
	return m, nil
}

// lookUp marks the letters of a begun batch that have arrived. It compares the records written since the batch began with all
// letters of the batch, including those that are known to have arrived. Otherwise, among equal letters, an arrival that was
// counted before would count again for a letter that was never sent. It skips only the refused letters. The letters of one
// partition arrive in their order.
func (d *driver) lookUp(ctx context.Context, b *batch) error {
	if !d.o.DryRun && !kafka.Sleep(ctx, arrivalTime) {
		return context.Cause(ctx)
	}
	arrived, err := d.arrived(ctx, b.marker.ends)
	if err != nil {
		return err
	}
	for i := range b.letters {
		one := &b.letters[i]
		if one.refused {
			continue
		}
		to := one.Letter.Partition
		queue := arrived[to]
		if at := slices.Index(queue, fingerprintOf(one.message.Key, one.message.Value, one.message.Headers)); at >= 0 {
			arrived[to] = queue[at+1:]
			one.done = true
		}
	}
	return nil
}

// arrived returns the records that went back to each partition after the offset in ends, in order.
func (d *driver) arrived(ctx context.Context, ends map[record.Partition]int64) (map[record.Partition][]fingerprint, error) {
	arrived := map[record.Partition][]fingerprint{}
	for _, to := range slices.SortedFunc(maps.Keys(ends), record.Partition.Compare) {
		_, end, err := d.log.Bounds(ctx, to)
		if err == nil && end > ends[to] {
			_, err = d.log.Scan(ctx, to, ends[to], end, func(r *record.Record) error {
				headers, err := recordbatch.ParseHeaders(r.Headers)
				if mayBeReturned(headers) {
					arrived[to] = append(arrived[to], fingerprintOf(r.Key, r.Value, headers))
				}
				return err
			})
		}
		if err != nil {
			return nil, fmt.Errorf("checking which records of dead letters have arrived in %s: %w", to, err)
		}
	}
	return arrived, nil
}
