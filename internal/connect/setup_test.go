package connect

import (
	"errors"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"

	kafkago "github.com/segmentio/kafka-go"

	"waterwheel/config"
	"waterwheel/internal/claim"
	"waterwheel/internal/kafka"
	"waterwheel/internal/record"
)

// settings loads settings from pairs of names and values, and from values for the required settings.
func settings(t *testing.T, pairs ...string) config.Config {
	t.Helper()
	all := map[string]string{"KAFKA_BROKERS": "none:9092", "KAFKA_TOPICS": "events", "MONGODB_URI": "mongodb://none", "MEMORY_LIMIT": "1GiB"}
	for i := 0; i < len(pairs); i += 2 {
		all[pairs[i]] = pairs[i+1]
	}
	c, err := config.Load(func(name string) (string, bool) { text, ok := all[name]; return text, ok }, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestTopicsForPatterns checks that patterns leave out topics without the right to read, Kafka's own topics, and topics that
// would share a collection. The first and the last come with a reason.
func TestTopicsForPatterns(t *testing.T) {
	const all = kafka.Rights(-1)
	there := []kafka.Topic{
		{Name: "s.b", Rights: all},
		{Name: "s.a", Rights: all},
		{Name: "s.secret", Rights: 1 << 8},
		{Name: "s.internal", Internal: true, Rights: all},
		{Name: "s.a.buckets", Rights: all},
		{Name: "s.broken", Err: kafkago.LeaderNotAvailable, Rights: all},
		{Name: "s.a.dlq", Rights: all},
		{Name: "t", Rights: all},
	}
	c := settings(t, "KAFKA_TOPICS", `^s\.,named`)
	matched, refused, err := matchTopics(c, there, Precedence{}, slog.New(slog.DiscardHandler))
	if err != nil || !slices.Equal(matched.Kafka.Topics, []string{"named", "s.a", "s.b"}) {
		t.Errorf("%v, %v", matched.Kafka.Topics, err)
	}
	if len(refused) != 2 || !strings.Contains(refused["s.secret"].Error(), "grant READ") || !strings.Contains(refused["s.a.buckets"].Error(), "would both use the collection") {
		t.Errorf("refused: %v", refused)
	}
	for name, order := range map[string]Precedence{"read already": {First: []string{"s.a.buckets"}}, "refused before": {Last: []string{"s.a"}}} {
		matched, refused, err := matchTopics(c, there, order, slog.New(slog.DiscardHandler))
		if err != nil || slices.Contains(matched.Kafka.Topics, "s.a") || !slices.Contains(matched.Kafka.Topics, "s.a.buckets") || refused["s.a"] == nil {
			t.Errorf("%s: %v, refused %v, %v", name, matched.Kafka.Topics, refused, err)
		}
	}
	if same, err := Resolve(t.Context(), settings(t), nil); err != nil || !slices.Equal(same.Kafka.Topics, []string{"events"}) {
		t.Errorf("without patterns: %v, %v", same.Kafka.Topics, err)
	}
}

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
