package redrive

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"strconv"

	"waterwheel/dlq"
	"waterwheel/internal/kafka"
	"waterwheel/internal/record"
)

// returned is the record that a letter goes back as: the original, the number of attempts including the next one, and the
// letter's place.
func returned(f *dlq.Found) kafka.Message {
	l := &f.Letter
	return kafka.Message{Timestamp: l.Timestamp, Key: l.Key, Value: l.Value, Headers: append(
		slices.Clone(dlq.OwnHeaders(f.Headers)),
		record.Header{Key: dlq.HeaderAttempt, Value: []byte(strconv.Itoa(f.Attempts() + 1))},
		record.Header{Key: dlq.HeaderDriven, Value: []byte(f.Place.String())},
	)}
}

// mayBeReturned reports whether a record of a source topic may have gone back. Former versions did not write the letter's place.
func mayBeReturned(headers []record.Header) bool {
	return slices.ContainsFunc(headers, func(h record.Header) bool { return h.Key == dlq.HeaderAttempt })
}

// fingerprint identifies the content of a record.
type fingerprint [16]byte

// fingerprintOf ignores the timestamp, because the broker may have replaced it. It also ignores the letter's place, which former
// versions did not write, so that it recognises a batch that a former version began.
func fingerprintOf(key, value []byte, headers []record.Header) (f fingerprint) {
	hash := sha256.New()
	add := func(b []byte) {
		length := uint64(len(b)) + 1
		if b == nil {
			length = 0
		}
		hash.Write(binary.BigEndian.AppendUint64(nil, length))
		hash.Write(b)
	}
	add(key)
	add(value)
	for _, h := range headers {
		if h.Key == dlq.HeaderDriven {
			continue
		}
		add([]byte(h.Key))
		add(h.Value)
	}
	copy(f[:], hash.Sum(nil))
	return f
}

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
