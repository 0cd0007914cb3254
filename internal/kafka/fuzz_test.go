package kafka

import (
	"testing"

	"waterwheel/internal/kafka/recordbatch"
)

// FuzzAnswers gives arbitrary bytes to the parsers of answers.
func FuzzAnswers(f *testing.F) {
	f.Add(fetchSpec{id: fakeID, aborted: []recordbatch.Aborted{{Producer: 1, First: 2}}, set: []byte("set")}.encode())
	f.Add(fetchSpec{top: 3}.encode())
	f.Add((&fakeBroker{topics: []string{"a"}}).metadataBody())
	f.Add(offsetFetchBody())
	f.Add(consumerGroup())
	f.Fuzz(func(t *testing.T, answer []byte) {
		request := fetchRequest{topicID: fakeID}
		if a, err := request.request().Parse(answer); err == nil && len(a.records) > len(answer) {
			t.Fatal("more records than bytes")
		}
		if m, err := metadataRequest(nil).Parse(answer); err == nil && len(m.topics) > len(answer) {
			t.Fatal("more topics than bytes")
		}
		if o, err := offsetFetchRequest("g", nil).Parse(answer); err == nil && len(o.committed) > len(answer) {
			t.Fatal("more offsets than bytes")
		}
		if g, err := newConsumerGroupRequest("g").Parse(answer); err == nil && len(g.members) > len(answer) {
			t.Fatal("more members than bytes")
		}
	})
}
