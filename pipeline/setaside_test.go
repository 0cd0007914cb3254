package pipeline

import (
	"strings"
	"testing"
	"time"

	"waterwheel/bucketer"
	"waterwheel/internal/timeseries"
)

// refusing makes a stand's database refuse every bucket of one series, as an index on the meta does. The meta of a segment is of no series.
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

// TestARefusedSeriesHoldsUpNoOther: the segments that may have the series are left, all others are compacted, and what comes next of the
// series is refused as a bucket, for its dead letter. When MongoDB takes the bucket, everything becomes buckets.
func TestARefusedSeriesHoldsUpNoOther(t *testing.T) {
	s := newSegmentStand(t, func(o *Options) { o.Bucketing.SegmentRows = 50 })
	s.write(400) // 8 segments and more
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

// TestAnAskedCompactionTriesWhatWasLeft: an edit of meta waits for all segments, and the operator may have dropped the index.
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
