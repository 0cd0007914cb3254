package redrive

import (
	"context"

	"waterwheel/dlq"
	"waterwheel/internal/kafka"
	"waterwheel/internal/record"
)

// target takes letters back. Calls do not overlap.
type target interface {
	// Produce appends messages to a partition, in order. It returns when all in-sync replicas have them, except refused ones. The
	// partition refuses a message because of its content, and would do so again. refused has the broker's errors by the messages'
	// indexes. After an error the first messages may have been written, or may still be written within arrivalTime.
	Produce(ctx context.Context, to record.Partition, messages []kafka.Message) (refused map[int]error, err error)
}

// returner implements target with Kafka.
type returner struct {
	write func(ctx context.Context, to record.Partition, messages ...kafka.Message) error
	// hold is called before each request. An error forbids the request, because another run may have taken over.
	hold func(context.Context) error
}

// Produce implements target.
func (r *returner) Produce(ctx context.Context, to record.Partition, messages []kafka.Message) (refused map[int]error, err error) {
	refused = map[int]error{}
	for done := 0; done < len(messages); {
		end := done + kafka.Fitting(messages[done:], (*kafka.Message).Size)
		err := r.send(ctx, to, messages[done:end]...)
		if dlq.Refuses(err) {
			err = r.sendOneByOne(ctx, to, messages[done:end], func(i int, err error) { refused[done+i] = err })
		}
		if err != nil {
			return nil, err
		}
		done = end
	}
	return refused, nil
}

// sendOneByOne finds the messages that the partition refuses, and sends the others.
func (r *returner) sendOneByOne(ctx context.Context, to record.Partition, messages []kafka.Message, refused func(i int, err error)) error {
	for i := range messages {
		err := r.send(ctx, to, messages[i])
		switch {
		case dlq.Refuses(err):
			refused(i, err)
		case err != nil:
			return err
		}
	}
	return nil
}

func (r *returner) send(ctx context.Context, to record.Partition, messages ...kafka.Message) error {
	if err := r.hold(ctx); err != nil {
		return err
	}
	return r.write(ctx, to, messages...)
}
