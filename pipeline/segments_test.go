package pipeline

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/claim"
)

// openSegments returns segments of some parts of the series, with one segment of each part in each flush.
func openSegments(parts, flushes int, bytes int64) (all []openSegment) {
	for flush := range flushes {
		for p := range parts {
			all = append(all, openSegment{
				Segment: claim.Segment{
					ID: bson.ObjectID{byte(flush), byte(p)}, Low: fmt.Sprintf("%02d", p), High: fmt.Sprintf("%02d-9", p), Bytes: bytes, Count: 1,
				},
				since: Instant(1+flush) * 5 * time.Second,
			})
		}
	}
	return all
}

// named returns the parts, with the number of segments of each.
func named(taken []openSegment) string {
	count := map[string]int{}
	var names []string
	for i := range taken {
		if count[taken[i].Low]++; count[taken[i].Low] == 1 {
			names = append(names, taken[i].Low)
		}
	}
	slices.Sort(names)
	for i, name := range names {
		names[i] = fmt.Sprintf("%s:%d", name, count[name])
	}
	return strings.Join(names, " ")
}

// TestSegmentsOfTheSameSeriesAreCompactedTogether expects all segments of some series, and due segments of others if they fit.
func TestSegmentsOfTheSameSeriesAreCompactedTogether(t *testing.T) {
	const interval = time.Minute
	due := interval + 5*time.Second
	for name, c := range map[string]struct {
		open        []openSegment
		now         Instant
		bytes, most int64
		want        string
	}{
		"nothing is due":          {openSegments(3, 4, 10), due - 1, 1000, 1000, ""},
		"all fit":                 {openSegments(3, 4, 10), due, 1000, 1000, "00:4 01:4 02:4"},
		"two fit":                 {openSegments(3, 4, 10), due, 1000, 80, "00:4 01:4"},
		"a part too many":         {openSegments(3, 4, 10), due, 1000, 79, "00:4"},
		"not even one fits":       {openSegments(3, 4, 10), due, 1000, 30, "00:3"},
		"one is always taken":     {openSegments(3, 4, 10), due, 1000, 5, "00:1"},
		"many bytes come earlier": {openSegments(3, 4, 10), due - 1, 40, 1000, "00:4 01:4 02:4"},
	} {
		s := segments{open: c.open}
		if got := named(s.toCompact(c.now, interval, c.bytes, c.most)); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}

	// A segment that overlaps two parts joins them.
	wide := openSegments(3, 4, 10)
	wide[4].High = "01-5"
	if got := named((&segments{open: wide}).toCompact(due, interval, 1000, 80)); got != "00:4 01:4" {
		t.Errorf("parts that overlap: %q", got)
	}
	wide[5].TopicID = [16]byte{9}
	wide[5].since = 1
	if got := named((&segments{open: wide}).toCompact(due, interval, 1000, 1000)); got != "00:4 01:4 02:3" {
		t.Errorf("segments of a former topic are not left to a compaction of their own: %q", got)
	}

	// The number of segments is limited, and whole parts come first.
	many := openSegments(40, 60, 1)
	if got := (&segments{open: many}).toCompact(due*10, interval, 1<<40, 1<<40); len(got) != 16*60 {
		t.Errorf("%d of %d segments at once, at most %d", len(got), len(many), maxCompacted)
	}
}
