package chaos

import (
	"context"
	"errors"
	"slices"
	"time"

	kafka "github.com/segmentio/kafka-go"

	"waterwheel/e2e/check"
)

// recreates reports whether the run deletes the topic and creates it again.
func (o *Options) recreates() bool { return slices.Contains(o.Actions, "recreate") }

// incarnation is a topic that was deleted. Records committed before the deletion must be stored.
type incarnation struct {
	topic     check.Topic
	records   []check.Record
	committed []int64
}

// recreate deletes the topic while the members run, and creates it again with another id. Records that they had not read are lost
// with the topic. All others must be stored once.
func (r *run) recreate(ctx context.Context) (bool, error) {
	if !r.broker.TryLock() {
		return false, nil
	}
	defer r.broker.Unlock()
	r.load.pause.Lock()
	defer r.load.pause.Unlock()
	past, err := r.remember(ctx)
	if err != nil {
		return false, err
	}
	r.past = append(r.past, past)
	gone := between(r.random, 0, 6*time.Second)
	r.note("the topic is deleted, %d records of it are committed, and created again after %.1fs", past.size(), gone.Seconds())
	if err := r.eventually(ctx, "deleting the topic", func(ctx context.Context, admin *kafka.Client) error {
		if _, err := admin.DeleteTopics(ctx, &kafka.DeleteTopicsRequest{Topics: []string{r.topic}}); err != nil {
			return err
		}
		_, there, err := r.kafka.Topic(ctx, r.topic)
		if err == nil && there {
			err = errors.New("it is still there")
		}
		return err
	}); err != nil {
		return true, err
	}
	sleep(ctx, gone)
	return true, r.eventually(ctx, "creating the topic", func(ctx context.Context, _ *kafka.Client) error {
		return r.servers.CreateTopic(ctx, r.topic, r.options.Partitions)
	})
}

// remember reads the committed offsets first, and then all records of the topic.
func (r *run) remember(ctx context.Context) (incarnation, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	var past incarnation
	var err error
	if past.topic, _, err = r.kafka.Topic(ctx, r.topic); err != nil {
		return past, err
	}
	if past.committed, _, err = r.kafka.Committed(ctx, r.group(), past.topic); err != nil {
		return past, err
	}
	past.records, err = r.kafka.Read(ctx, past.topic)
	return past, err
}

// size is the number of records below the committed offsets. Offsets committed for an earlier incarnation may lie beyond the end.
func (i incarnation) size() int {
	n := 0
	for _, r := range i.records {
		if r.Offset < i.committed[r.Partition] {
			n++
		}
	}
	return n
}
