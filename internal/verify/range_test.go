package verify

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"waterwheel/internal/claim"
	"waterwheel/internal/record"
)

// book implements Offsets for a log from 10 to 300.
type book struct {
	committed []claim.Committed
	asked     []string
}

func (b *book) Committed(context.Context, string, []record.Partition) ([]claim.Committed, error) {
	b.asked = append(b.asked, "committed")
	if b.committed == nil {
		return nil, errors.New("no answer")
	}
	return b.committed, nil
}

func (b *book) Bounds(context.Context, record.Partition) (first, end int64, err error) {
	b.asked = append(b.asked, "bounds")
	return 10, 300, nil
}

// OffsetAt assumes a record per second.
func (b *book) OffsetAt(_ context.Context, _ record.Partition, time int64) (int64, error) {
	return time / 1000, nil
}

func offset(n int64) Limit { return Limit{Offset: &n} }

func from(name string, l Limit) Limit {
	l.Name = name
	return l
}

// TestRangeIsBelowWhatIsStored checks this because a check of an empty range must not look like a check without findings.
func TestRangeIsBelowWhatIsStored(t *testing.T) {
	ours := claim.Provenance{ClusterID: "c", TopicID: [16]byte{1}, Namespace: "db.events"}
	for name, c := range map[string]struct {
		committed int64
		from, to  Limit
		want      [2]int64
		notes     string // Empty means none.
	}{
		"all":                  {committed: 200, want: [2]int64{10, 200}},
		"a part":               {committed: 200, from: from("--from", offset(20)), to: offset(30), want: [2]int64{20, 30}},
		"times":                {committed: 200, from: from("--from", Limit{Time: time.Unix(20, 0)}), to: Limit{Time: time.Unix(30, 0)}, want: [2]int64{20, 30}},
		"beyond the commit":    {committed: 200, from: from("--from", offset(500)), want: [2]int64{500, 200}, notes: "nothing to verify: --from (offset 500) is not below the committed offset (200)"},
		"at the commit":        {committed: 200, from: from("--from", offset(200)), want: [2]int64{200, 200}, notes: "nothing to verify: --from (offset 200) is not below the committed offset (200)"},
		"to beyond the commit": {committed: 200, from: from("--from", offset(20)), to: offset(400), want: [2]int64{20, 200}, notes: "only offsets below the committed one, 200, can be verified"},
		"after the end":        {committed: 200, from: from("KAFKA_START", Limit{Time: time.Unix(210, 0)}), want: [2]int64{210, 200}, notes: "nothing to verify: KAFKA_START (offset 210) is not below the committed offset (200)"},
		"before the log":       {committed: 200, to: offset(5), want: [2]int64{10, 5}, notes: "nothing to verify: the log's start (offset 10) is not below --to (5)"},
		"retention":            {committed: 200, from: from("--from", offset(3)), want: [2]int64{10, 200}, notes: "retention has removed the records below offset 10: they cannot be verified"},
		"no records":           {committed: 10, want: [2]int64{10, 10}},
		"beyond the end":       {committed: 400, want: [2]int64{10, 300}, notes: "the committed offset 400 is beyond the log's end 300: the log was truncated, the offset set by hand, or a transaction is open"},
	} {
		q := Question{Topic: "events", Partitions: []int32{0}, Group: "g", Pipeline: ours, From: c.from, To: c.to}
		b := &book{committed: []claim.Committed{{Offset: c.committed, Metadata: ours.String()}}}
		ranges, err := q.Ranges(t.Context(), b)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if r := ranges[0]; [2]int64{r.From, r.To} != c.want || strings.Join(r.Notes, ". ") != c.notes || b.asked[0] != "committed" {
			t.Errorf("%s: %d to %d, notes %q, asked %q", name, r.From, r.To, r.Notes, b.asked)
		}
	}
}

// TestOffsetsOfOthersAreNotVerified checks that they are not treated as ours.
func TestOffsetsOfOthersAreNotVerified(t *testing.T) {
	ours := claim.Provenance{ClusterID: "c", TopicID: [16]byte{1}, Namespace: "db.events"}
	deleted, elsewhere, mirrored := ours, ours, ours
	deleted.TopicID, elsewhere.Namespace, mirrored.ClusterID = [16]byte{2}, "db.other", "d"
	both := elsewhere
	both.TopicID = deleted.TopicID
	for name, c := range map[string]struct {
		committed claim.Committed
		to        int64
		note, err string
	}{
		"ours":                {claim.Committed{Offset: 50, Metadata: ours.String()}, 50, "", ""},
		"none":                {claim.Committed{Offset: -1}, 0, "has committed nothing", ""},
		"a reset":             {claim.Committed{Offset: 50}, 50, "used unchanged", ""},
		"a mirror":            {claim.Committed{Offset: 50, Metadata: mirrored.String()}, 50, "used unchanged", ""},
		"another program":     {claim.Committed{Offset: 50, Consumed: true}, 50, "another program committed the offset", ""},
		"a deleted topic":     {claim.Committed{Offset: 50, Metadata: deleted.String()}, 0, "has since been deleted", ""},
		"other collection":    {claim.Committed{Offset: 50, Metadata: elsewhere.String()}, 0, "", "writes events/1 to db.other, but the settings name db.events"},
		"and a deleted topic": {claim.Committed{Offset: 50, Metadata: both.String()}, 0, "", "writes events/1 to db.other, but the settings name db.events"},
	} {
		q := Question{Topic: "events", Partitions: []int32{0, 1}, Group: "g", Pipeline: ours}
		ranges, err := q.Ranges(t.Context(), &book{committed: []claim.Committed{{Offset: 20, Metadata: ours.String()}, c.committed}})
		if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil {
			continue
		}
		if notes := strings.Join(ranges[1].Notes, " "); ranges[1].To != c.to || !strings.Contains(notes, c.note) || c.note == "" && notes != "" {
			t.Errorf("%s: %+v", name, ranges[1])
		}
	}
	q := Question{Topic: "events", Partitions: []int32{0}, Group: "g", Pipeline: ours}
	if _, err := q.Ranges(t.Context(), &book{}); err == nil || !strings.Contains(err.Error(), "no answer") {
		t.Errorf("no answer: %v", err)
	}
	if _, err := q.Ranges(t.Context(), &book{committed: []claim.Committed{{Offset: -1}}}); err == nil || !strings.Contains(err.Error(), "check that the group has run") {
		t.Errorf("nothing committed at all: %v", err)
	}
}
