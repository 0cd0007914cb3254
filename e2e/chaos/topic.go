package chaos

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"waterwheel/e2e/check"
)

// maxPartitions is the number of partitions up to which the topic may grow.
const maxPartitions = 24

// eventually repeats try for up to a minute, because a broker may be down.
func (r *run) eventually(ctx context.Context, what string, try func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		short, cancel := context.WithTimeout(ctx, 5*time.Second)
		err := try(short)
		cancel()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", what, err)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// grow adds a partition to the topic, unless it has maxPartitions.
func (r *run) grow(ctx context.Context) (bool, error) {
	if !r.standing.TryRLock() {
		return false, nil
	}
	defer r.standing.RUnlock()
	topic, ok, err := r.kafka.Topic(ctx, r.topic)
	if err != nil || !ok || topic.Partitions >= maxPartitions {
		return false, nil // a broker may be down
	}
	count := topic.Partitions + 1
	r.note("the topic grows to %d partitions", count)
	return true, r.eventually(ctx, "adding a partition", func(ctx context.Context) error {
		response, err := r.kafka.Admin.UpdatePartitions(ctx, int(count), r.topic)
		if err != nil {
			return err
		}
		if now, _, err := r.kafka.Topic(ctx, r.topic); err == nil && now.Partitions == count {
			return nil
		}
		return response.Error()
	})
}

// reset stops all members, sets the group's offsets back as Kafka's own tool does, and starts the members again.
func (r *run) reset(ctx context.Context) (bool, error) {
	r.standing.Lock()
	defer r.standing.Unlock()
	back := []int64{5_000, 50_000, 1 << 40}[r.random.IntN(3)]
	var was []*member
	for _, m := range r.members {
		if m.consumer != nil {
			was = append(was, m)
		}
	}
	r.note("reset the group by up to %d offsets a partition", back)
	r.stopAll(ctx)
	if err := r.eventually(ctx, "resetting the group's offsets", func(ctx context.Context) error {
		return r.commitBack(ctx, back)
	}); err != nil {
		return true, err
	}
	for _, m := range was {
		if err := m.start(); err != nil {
			return true, err
		}
	}
	return true, nil
}

// commitBack commits offsets smaller than the present ones, without metadata, for a group without members.
func (r *run) commitBack(ctx context.Context, back int64) error {
	topic, _, err := r.kafka.Topic(ctx, r.topic)
	if err != nil {
		return err
	}
	committed, _, err := r.kafka.Committed(ctx, r.group(), topic)
	if err != nil {
		return err
	}
	var offsets kadm.Offsets
	for p, offset := range committed {
		offsets.AddOffset(r.topic, int32(p), max(0, offset-back), -1)
	}
	return r.kafka.Admin.CommitAllOffsets(ctx, r.group(), offsets)
}

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
	if err := r.eventually(ctx, "deleting the topic", func(ctx context.Context) error {
		if _, err := r.kafka.Admin.DeleteTopics(ctx, r.topic); err != nil {
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
	return true, r.eventually(ctx, "creating the topic", func(ctx context.Context) error {
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
