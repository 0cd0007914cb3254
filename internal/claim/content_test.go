package claim

import (
	"strings"
	"testing"

	"waterwheel/internal/record"
)

// TestOnlyOurCommitsRefuseAnEmptyCollection checks which commits show that a collection has lost its content.
func TestOnlyOurCommitsRefuseAnEmptyCollection(t *testing.T) {
	ours := Provenance{ClusterID: "c", TopicID: [16]byte{1}, Namespace: "db.events"}
	again, elsewhere := ours, ours
	again.TopicID, elsewhere.Namespace = [16]byte{2}, "db.old"
	partitions := []record.Partition{{Topic: "events"}, {Topic: "events", Number: 1}}
	for name, c := range map[string]struct {
		second  Committed
		refuses bool
	}{
		"nothing":             {Committed{Offset: -1}, false},
		"the begin of a log":  {Committed{Offset: 0, Metadata: ours.String()}, false},
		"stored records":      {Committed{Offset: 7, Metadata: ours.String()}, true},
		"a reset":             {Committed{Offset: 7}, false},
		"a former topic":      {Committed{Offset: 7, Metadata: again.String()}, false},
		"another collection":  {Committed{Offset: 7, Metadata: elsewhere.String()}, false},
		"another program":     {Committed{Offset: 7, Consumed: true}, false},
		"beside this program": {Committed{Offset: 7, Metadata: ConsumedMetadata}, false},
	} {
		err := ours.RefuseEmpty("g", partitions, []Committed{{Offset: -1}, c.second})
		if (err != nil) != c.refuses || err != nil && !strings.Contains(err.Error(), "offset 7 of events/1") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
