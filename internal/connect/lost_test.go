package connect

import (
	"errors"
	"io"
	"testing"

	kafkago "github.com/segmentio/kafka-go"

	"waterwheel/internal/claim"
	"waterwheel/internal/kafka"
	"waterwheel/internal/record"
)

// TestCommitsOfALostCollection checks what answers for commits say of a collection that is not set up.
func TestCommitsOfALostCollection(t *testing.T) {
	ours := claim.Provenance{ClusterID: "c", TopicID: [16]byte{1}, Namespace: "db.events"}
	at := func(number int32, offset int64, metadata string) kafka.Committed {
		return kafka.Committed{Place: record.Place{Partition: record.Partition{Topic: "events", Number: number}, Offset: offset}, Metadata: metadata, Epoch: -1}
	}
	failed := func(number int32, err error) kafka.Committed {
		c := at(number, 0, "")
		c.Err = err
		return c
	}
	stored, none := at(3, 17, ours.String()), at(0, -1, "")
	for name, c := range map[string]struct {
		answers []kafka.Committed
		failed  error
		lost    bool
		pending bool
	}{
		"nothing is committed":                {answers: []kafka.Committed{none}},
		"one partition of several":            {answers: []kafka.Committed{none, stored}, lost: true},
		"an operator's reset":                 {answers: []kafka.Committed{at(0, 17, "")}},
		"one partition does not answer":       {answers: []kafka.Committed{failed(0, kafkago.NotCoordinatorForGroup), none}, pending: true},
		"but another tells":                   {answers: []kafka.Committed{failed(0, kafkago.NotCoordinatorForGroup), stored}, lost: true},
		"Kafka does not answer":               {failed: io.ErrUnexpectedEOF, pending: true},
		"the group may not be read":           {failed: kafkago.GroupAuthorizationFailed},
		"the topic may not be read":           {answers: []kafka.Committed{failed(0, kafkago.TopicAuthorizationFailed)}},
		"one topic may not be read, one does": {answers: []kafka.Committed{failed(0, kafkago.TopicAuthorizationFailed), stored}, lost: true},
	} {
		lost, err := refuseEmpty(ours, "g", c.answers, c.failed)
		if (lost != nil) != c.lost {
			t.Errorf("%s: lost is %v", name, lost)
		}
		if content, is := errors.AsType[*claim.LostContentError](lost); is && (content.Committed != stored.Place || content.Group != "g") {
			t.Errorf("%s: names %+v", name, content)
		}
		if _, pending := errors.AsType[*notYetError](err); pending != c.pending || !pending && err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
