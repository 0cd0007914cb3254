package pipeline

import (
	"strings"
	"testing"
	"time"

	"waterwheel/bucketer"
	"waterwheel/internal/timeseries"
)

// refusing makes a stand's database refuse every bucket of one series, as an index on the meta may do. Segments are not refused,
// because their meta belongs to no series.
func (s *segmentStand) refusing(meta string) {
	refused := func(writes []*bucketer.Write) []bucketer.Sent {
		sent := s.store(writes)
		for i, w := range writes {
			if found, ok := w.Document.Lookup(timeseries.FieldMeta).StringValueOK(); ok && found == meta {
				sent[i] = bucketer.Sent{Result: bucketer.Refused, Code: 16766, Message: "no arrays"}
			}
		}
		return sent
	}
	s.answer = func(a Action) Event {
		switch a := a.(type) {
		case InsertCompacted:
			return CompactedInserted{refused(a.Writes)}
		case SendWrites:
			return WritesSent{refused(a.Writes)}
		}
		return nil
	}
}

// TestARefusedSeriesHoldsUpNoOther checks that only segments that may contain the series remain. The next measurements of the
// series are refused as a bucket, and become a letter. When MongoDB accepts the bucket, all segments become buckets.
func TestARefusedSeriesHoldsUpNoOther(t *testing.T) {
	s := newSegmentStand(t, func(o *Options) { o.Bucketing.SegmentRows = 50 })
	s.write(400) // at least 8 segments
	total, _ := s.open()
	if total < 8 {
		t.Fatalf("only %d segments", total)
	}
	s.refusing("s77")
	bytes := s.w.past.compactBytes
	s.pass(s.w.o.CompactInterval)
	s.pass(foundWait)
	s.want("but for one", 1, 0)
	if s.w.past.compactBytes != bytes {
		t.Errorf("compactions have %d bytes at most, after %d", s.w.past.compactBytes, bytes)
	}
	said := s.log.String()
	if strings.Count(said, "MongoDB refuses a bucket of a compaction") != 1 || !strings.Contains(said, "s77") || !strings.Contains(said, "segments=1 ") {
		t.Errorf("the log: %s", said)
	}

	s.write(400)
	if n := len(s.w.rejected); n != 1 {
		t.Fatalf("%d measurements are to become dead letters", n)
	}
	s.pass(s.w.o.CompactInterval)
	s.pass(foundWait)
	s.want("once more", 1, 0)
	if n := strings.Count(s.log.String(), "MongoDB refuses a bucket of a compaction"); n != 2 {
		t.Errorf("the log names it %d times: %s", n, s.log.String())
	}

	s.answer = nil
	s.pass(refusedRetry)
	s.pass(foundWait)
	s.want("when MongoDB takes it", 0, 0)
}

// TestAnAskedCompactionTriesWhatWasLeft checks this because an edit of meta waits for all segments, and the operator may have
// dropped the index.
func TestAnAskedCompactionTriesWhatWasLeft(t *testing.T) {
	s := newSegmentStand(t)
	s.write(30)
	s.refusing("s7")
	s.pass(s.w.o.CompactInterval)
	s.want("refused", 1, 0)
	s.answer = nil
	s.give(CompactionAsked{})
	s.pass(time.Second)
	s.want("asked for", 0, 0)
}
