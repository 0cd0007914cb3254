package dlq

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/segmentio/kafka-go"
)

// Returner is the Target in Kafka.
type Returner struct {
	transport *kafka.Transport
	client    *kafka.Client
	timeout   time.Duration
	hold      func(context.Context) error
	now       func() time.Time
}

// NewReturner connects to nothing yet. The transport belongs to the Returner, which closes its connections; it must know the
// topics that letters go back to. timeout bounds one request; 0: 5 s. hold is asked before each request, and forbids it with
// an error: another run may have taken over; nil: there is no other.
func NewReturner(brokers []string, transport *kafka.Transport, timeout time.Duration, hold func(context.Context) error) *Returner {
	if timeout == 0 {
		timeout = defaultTimeout
	}
	if hold == nil {
		hold = func(context.Context) error { return nil }
	}
	return &Returner{
		transport: transport,
		client:    &kafka.Client{Addr: kafka.TCP(brokers...), Transport: transport, Timeout: timeout},
		timeout:   timeout,
		hold:      hold,
		now:       time.Now,
	}
}

// Close closes the connections.
func (r *Returner) Close() { r.transport.CloseIdleConnections() }

// Produce implements Target. A record whose timestamp Kafka cannot keep gets the present time.
func (r *Returner) Produce(ctx context.Context, to Place, records []Record) error {
	refused := map[int]error{}
	for start := 0; start < len(records); {
		end := start + 1
		for n := recordSize(&records[start]); end < len(records); end++ {
			if n += recordSize(&records[end]); n > chunkBytes {
				break
			}
		}
		err := r.send(ctx, to, records[start:end])
		if refusesLetter(err) {
			err = r.sendOneByOne(ctx, to, records[start:end], func(i int, err error) { refused[start+i] = err })
		}
		if err != nil {
			return err
		}
		start = end
	}
	if len(refused) > 0 {
		return &RefusedError{Errs: refused}
	}
	return nil
}

// sendOneByOne finds the records that the topic refuses, and sends the others.
func (r *Returner) sendOneByOne(ctx context.Context, to Place, records []Record, refused func(i int, err error)) error {
	for i := range records {
		err := r.send(ctx, to, records[i:i+1])
		switch {
		case refusesLetter(err):
			refused(i, err)
		case err != nil:
			return err
		}
	}
	return nil
}

func (r *Returner) send(ctx context.Context, to Place, records []Record) error {
	out := make([]kafka.Record, len(records))
	for i := range records {
		// A request abandoned at its context's end may still be encoded: it shares no bytes.
		record := &records[i]
		out[i] = kafka.Record{
			Time: r.timeOf(record), Key: kafka.NewBytes(bytes.Clone(record.Key)), Value: kafka.NewBytes(bytes.Clone(record.Value)),
		}
		for _, h := range record.Headers {
			out[i].Headers = append(out[i].Headers, Header{Key: h.Key, Value: bytes.Clone(h.Value)})
		}
	}
	if err := r.hold(ctx); err != nil {
		return err
	}
	if err := produceRecords(ctx, r.client, r.timeout, to, out); err != nil {
		return fmt.Errorf("writing to %s: %w", to, err)
	}
	return nil
}

func (r *Returner) timeOf(record *Record) time.Time {
	if record.Timestamp <= 0 || record.Timestamp > latestTimestamp {
		return r.now()
	}
	return time.UnixMilli(record.Timestamp)
}

func recordSize(r *Record) int {
	return size(&Letter{Key: r.Key, Value: r.Value, Headers: r.Headers})
}
