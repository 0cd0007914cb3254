package chaos

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
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
