package kafka

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"

	"waterwheel/internal/record"
)

// TestRealAbortedTransactionsAreLeftOut has overlapping transactions that abort in the reverse order of their beginnings. The
// broker lists the later one first.
func TestRealAbortedTransactionsAreLeftOut(t *testing.T) {
	brokers := realBrokers(t)
	topic := realTopic(t, brokers)
	client, id := realClient(t, brokers, topic)
	first, second, third := newTransaction(t, brokers, topic), newTransaction(t, brokers, topic), newTransaction(t, brokers, topic)
	first.produce(t, 3)  // 0–2
	second.produce(t, 2) // 3–4
	third.produce(t, 4)  // 5–8
	second.end(t, false) // 9
	if batch, err := fetch(t.Context(), client, topic, id, 0); err != nil || len(batch.Records) != 0 || batch.Next != 0 || batch.End != 0 {
		t.Errorf("inside open transactions: %+v, %v", batch, err)
	}
	if _, end, err := client.Bounds(t.Context(), partition(topic, 0)); end != 0 || err != nil {
		t.Errorf("the end inside open transactions is %d, %v", end, err)
	}
	first.end(t, false) // 10
	third.end(t, true)  // 11
	produce(t, brokers, topic, 0, kafkago.Message{Value: []byte("plain")})
	var got []int64
	for _, r := range fetchUntil(t, client, topic, id, 5) {
		got = append(got, r.Offset)
	}
	if diff := cmp.Diff([]int64{5, 6, 7, 8, 12}, got); diff != "" {
		t.Error(diff)
	}
}

// TestRealOpenTransactionIsKnown checks its producer, its transactional id and its start time, until it ends.
func TestRealOpenTransactionIsKnown(t *testing.T) {
	brokers := realBrokers(t)
	topic := realTopic(t, brokers)
	client, id := realClient(t, brokers, topic)
	of := partition(topic, 0)
	if open, err := client.OpenTransaction(t.Context(), of); open != nil || err != nil {
		t.Errorf("before: %+v, %v", open, err)
	}
	produce(t, brokers, topic, 0, kafkago.Message{Value: []byte("plain")})
	began := time.Now()
	first, second := newTransaction(t, brokers, topic), newTransaction(t, brokers, topic)
	first.produce(t, 1)
	second.produce(t, 2)
	produce(t, brokers, topic, 0, kafkago.Message{Value: []byte("behind")})
	open, err := client.OpenTransaction(t.Context(), of)
	if err != nil || open == nil {
		t.Fatalf("%+v, %v", open, err)
	}
	if open.First != 1 || open.ID != first.id || open.Producer != int64(first.producer.ProducerID) || open.Since.Sub(began).Abs() > time.Minute {
		t.Errorf("%+v, want %s of producer %d since %v", open, first.id, first.producer.ProducerID, began)
	}
	if timestamp, err := client.Log(of, id).Timestamp(t.Context(), 1); err != nil || time.Since(time.UnixMilli(timestamp)).Abs() > time.Minute {
		t.Errorf("its first record is of %d, %v", timestamp, err)
	}
	batch, err := fetch(t.Context(), client, topic, id, 1)
	if err != nil || batch.Next != 1 || batch.End != 1 || batch.High != 5 {
		t.Errorf("read up to %d, which may be read up to %d, of a log that ends at %d: %v", batch.Next, batch.End, batch.High, err)
	}
	// A coordinator answers the end of a transaction before its markers are written.
	after := func(what string, is func(*record.Transaction) bool) {
		t.Helper()
		begun := time.Now()
		for open, err = client.OpenTransaction(t.Context(), of); err == nil && !is(open); open, err = client.OpenTransaction(t.Context(), of) {
			if time.Since(begun) > 20*time.Second {
				break
			}
		}
		if err != nil || !is(open) {
			t.Errorf("after the end of %s: %+v, %v", what, open, err)
		}
	}
	first.end(t, true)
	after("the first", func(o *record.Transaction) bool { return o != nil && o.First == 2 && o.ID == second.id })
	second.end(t, false)
	after("both", func(o *record.Transaction) bool { return o == nil })
}

// transaction is a transactional producer of one batch to partition 0.
type transaction struct {
	client   *kafkago.Client
	topic    string
	id       string
	producer *kafkago.ProducerSession
}

func newTransaction(t *testing.T, brokers []string, topic string) *transaction {
	t.Helper()
	x := &transaction{client: admin(t, brokers), topic: topic, id: "kafka-test-" + rand.Text()}
	x.retry(t, "beginning", func() error {
		r, err := x.client.InitProducerID(t.Context(), &kafkago.InitProducerIDRequest{TransactionalID: x.id, TransactionTimeoutMs: 30_000})
		if err != nil {
			return err
		}
		x.producer = r.Producer
		return r.Error
	})
	x.retry(t, "adding the partition", func() error {
		r, err := x.client.AddPartitionsToTxn(t.Context(), &kafkago.AddPartitionsToTxnRequest{
			TransactionalID: x.id, ProducerID: x.producer.ProducerID, ProducerEpoch: x.producer.ProducerEpoch,
			Topics: map[string][]kafkago.AddPartitionToTxn{topic: {{Partition: 0}}},
		})
		if err != nil {
			return err
		}
		return r.Topics[topic][0].Error
	})
	return x
}

// retry waits for a coordinator that is still loading, or busy with the previous transaction.
func (x *transaction) retry(t *testing.T, what string, do func() error) {
	t.Helper()
	var err error
	for range 100 {
		if err = do(); err == nil {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatalf("%s a transaction: %v", what, err)
}

func (x *transaction) produce(t *testing.T, count int) {
	t.Helper()
	now := time.Now().UnixMilli()
	set := batchOf(0, attributeTransactional, int64(x.producer.ProducerID), now, count)
	sized := append(binary.BigEndian.AppendUint32(nil, uint32(len(set))), set...)
	x.retry(t, "producing in", func() error {
		r, err := x.client.RawProduce(t.Context(), &kafkago.RawProduceRequest{
			Topic: x.topic, TransactionalID: x.id, RequiredAcks: kafkago.RequireAll,
			RawRecords: protocol.RawRecordSet{Reader: bytes.NewReader(sized)},
		})
		if err != nil {
			return err
		}
		return r.Error
	})
}

func (x *transaction) end(t *testing.T, commit bool) {
	t.Helper()
	x.retry(t, "ending", func() error {
		r, err := x.client.EndTxn(t.Context(), &kafkago.EndTxnRequest{
			TransactionalID: x.id, ProducerID: x.producer.ProducerID, ProducerEpoch: x.producer.ProducerEpoch, Committed: commit,
		})
		if err != nil {
			return err
		}
		return r.Error
	})
}
