package check

import (
	"errors"
	"testing"

	"waterwheel/claim"
	"waterwheel/dlq"
	"waterwheel/record"
)

// TestCheckJudgesCommitsAsRunDoes: what check finds is what the start of a partition makes of the same commits.
func TestCheckJudgesCommitsAsRunDoes(t *testing.T) {
	ours := claim.Provenance{ClusterID: "c", TopicID: [16]byte{1}, Namespace: "db.events"}
	elsewhere, mirrored, deleted := ours, ours, ours
	elsewhere.Namespace, deleted.TopicID = "db.old", [16]byte{2}
	mirrored.ClusterID, mirrored.Namespace = "d", "db.old"
	both := elsewhere
	both.TopicID = deleted.TopicID
	document := claim.Document{Found: true, TopicID: ours.TopicID, Start: 30}
	for name, c := range map[string]struct {
		committed claim.Committed
		document  claim.Document
		policy    claim.OutOfRange
		state     State // of the only finding; empty: there is none
		text      string
		lag       int64
	}{
		"ours":                {claim.Committed{Offset: 50, Metadata: ours.String()}, document, "stop", "", "", 50},
		"a reset":             {claim.Committed{Offset: 50}, document, "stop", "", "", 50},
		"a mirror":            {claim.Committed{Offset: 50, Metadata: mirrored.String()}, document, "stop", "", "", 50},
		"nothing":             {claim.Committed{Offset: -1}, document, "stop", "", "", 70},
		"another program":     {claim.Committed{Offset: 50, Consumed: true}, claim.Document{}, "stop", "", "", 50},
		"beside ours":         {claim.Committed{Offset: 50, Consumed: true}, document, "stop", "", "", 70},
		"another collection":  {claim.Committed{Offset: 50, Metadata: elsewhere.String()}, document, "stop", Wrong, "run would stop events/0 (other_collection): the group's offset was committed by a pipeline that writes db.old, this one writes db.events", 0},
		"and a deleted topic": {claim.Committed{Offset: 50, Metadata: both.String()}, document, "stop", Wrong, "(other_collection)", 0},
		"beyond the end":      {claim.Committed{Offset: 101, Metadata: ours.String()}, document, "stop", Wrong, "(offset_out_of_range): the committed offset 101 is beyond the log's end 100", 0},
		"beyond, earliest":    {claim.Committed{Offset: 101, Metadata: ours.String()}, document, "earliest", Warning, "events/0 is to begin at offset 101, and ends at 100: run goes on at its earliest record (KAFKA_OUT_OF_RANGE)", 90},
		"beyond, latest":      {claim.Committed{Offset: 101, Metadata: ours.String()}, document, "latest", Warning, "run goes on at its latest record (KAFKA_OUT_OF_RANGE)", 0},
		"a deleted topic":     {claim.Committed{Offset: 101, Metadata: deleted.String()}, document, "stop", "", "", 90},
		"retention":           {claim.Committed{Offset: 3, Metadata: ours.String()}, document, "stop", Warning, "7 records of events/0 were deleted", 90},
	} {
		facts := claim.Facts{
			Pipeline: ours, Committed: c.committed, Document: c.document, Bounds: record.Bounds{First: 10, End: 100}, OutOfRange: c.policy,
		}
		l := look{Findings: &Findings{}}
		lag := l.start("group g", dlq.Place{Topic: "events"}, facts)
		if (c.state == "") != (len(*l.Findings) == 0) || c.state != "" && !l.has(c.state, c.text) || lag != c.lag {
			t.Errorf("%s: %d behind, %+v", name, lag, *l.Findings)
		}
		begin, err := facts.Start()
		if stop := (*record.StopError)(nil); errors.As(err, &stop) != (l.Count(Wrong) > 0) || err == nil && lag != 100-begin.Offset {
			t.Errorf("%s: run begins at %+v, %v; check is %d behind, %+v", name, begin, err, lag, *l.Findings)
		}
	}
}
