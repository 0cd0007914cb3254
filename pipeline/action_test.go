package pipeline

import (
	"context"
	"errors"
	"testing"

	"waterwheel/bucketer"
	"waterwheel/internal/claim"
	"waterwheel/internal/record"
	"waterwheel/internal/timeseries"
)

// faulty is a partition and its topic with failing requests.
type faulty struct {
	fakePorts
	*fakeLog
	partitions, bounds, topic, await error
}

func (f *faulty) Open(source timeseries.Source) (Log, Store) {
	_, store := f.fakePorts.Open(source)
	return f, store
}

func (f *faulty) TopicID(context.Context, string) ([16]byte, error) { return thisTopic, f.topic }
func (f *faulty) Partitions(context.Context) (int32, error)         { return 1, f.partitions }
func (f *faulty) Bounds(context.Context) (record.Bounds, error)     { return record.Bounds{}, f.bounds }

func (f *faulty) Await(context.Context, int64, int64) (int64, error) {
	return 0, f.await
}

// assigned returns a worker that is about to read its claim.
func assigned(t *testing.T, _ ...func(*Options)) (*Worker, Moment) {
	w, m := newIdleWorker(t)
	w.Handle(m, Assigned{TopicID: thisTopic})
	return w, m
}

// TestEveryQuestionToKafkaCountsAsKafkas checks that an outage is reported as Kafka's and retried. An error that a retry does not
// fix, such as a missing right, stops the partition at once.
func TestEveryQuestionToKafkaCountsAsKafkas(t *testing.T) {
	for name, test := range map[string]struct {
		worker func(*testing.T, ...func(*Options)) (*Worker, Moment)
		before Event // that makes the worker ask
		action Action
		fail   func(*faulty, error)
	}{
		"partitions, for the claim": {assigned, nil, ReadClaim{}, func(f *faulty, err error) { f.partitions = err }},
		"what is committed":         {assigned, nil, ReadClaim{}, func(f *faulty, err error) { f.unread = err }},
		"bounds, for the claim":     {assigned, nil, ReadClaim{}, func(f *faulty, err error) { f.bounds = err }},
		"records":                   {newTestWorker, nil, Fetch{}, func(f *faulty, err error) { f.await = err }},
		"bounds":                    {newTestWorker, Fetched{Err: record.ErrOutOfRange}, AskBounds{}, func(f *faulty, err error) { f.bounds = err }},
		"the topic's id":            {newTestWorker, Fetched{Err: record.ErrTopicGone}, AskTopic{}, func(f *faulty, err error) { f.topic = err }},
		"a record, for its letter": {func(t *testing.T, _ ...func(*Options)) (*Worker, Moment) {
			w, m := flushing(t)
			w.Handle(m, WritesSent{Sent: []bucketer.Sent{{Result: bucketer.Refused, Code: 121}}})
			return w, m
		}, Fetched{Batch: record.Batch{Next: 1, End: 1}}, ReadRecord{}, func(f *faulty, err error) { f.await = err }},
	} {
		missing := &record.StopError{Reason: "kafka", Detail: "not authorized to describe the topic"}
		for _, err := range []error{errDown, missing} {
			t.Run(name+", "+err.Error(), func(t *testing.T) {
				w, m := test.worker(t)
				if test.before != nil {
					after(w, m, test.before)
				}
				f := &faulty{fakePorts: fakePorts{database: newFakeDatabase(), logs: []*fakeLog{3: {}}}, fakeLog: &fakeLog{}}
				test.fail(f, err)
				x := executor{worker: w, ports: f, budget: NewBudget(1 << 20)}
				x.open(Open{Source: w.source})
				x.give(m, test.action.perform(t.Context(), &x))
				if w.failures[MongoDB] != nil {
					t.Errorf("it counts as MongoDB's: %v", w.failures[MongoDB])
				}
				if errors.Is(err, errDown) && (w.failures[Kafka] == nil || w.halt != nil) {
					t.Errorf("the failure of Kafka is %v, the partition stopped for %v", w.failures[Kafka], w.halt)
				}
				if errors.Is(err, missing) && (w.halt != missing || w.failures[Kafka] != nil) {
					t.Errorf("the partition stopped for %v, the failure of Kafka is %v", w.halt, w.failures[Kafka])
				}
			})
		}
	}
}

// faultyStore is a partition with failing requests to MongoDB.
type faultyStore struct {
	Store
	read, first error
}

func (f faultyStore) Read(context.Context) (claim.Document, error)          { return claim.Document{}, f.read }
func (f faultyStore) FirstPartitions(context.Context, int32) (int32, error) { return 1, f.first }

// TestClaimIsReadWholeOrNotAtAll checks that an incomplete answer decides nothing, above all not the start.
func TestClaimIsReadWholeOrNotAtAll(t *testing.T) {
	for name, store := range map[string]faultyStore{"the claim": {read: errDown}, "the first partitions": {first: errDown}} {
		t.Run(name, func(t *testing.T) {
			w, m := assigned(t)
			x := executor{worker: w, ports: fakePorts{}, budget: NewBudget(1 << 20), log: &fakeLog{}, store: store}
			x.give(m, ReadClaim{}.perform(t.Context(), &x))
			if w.failures[MongoDB] == nil || w.failures[Kafka] != nil {
				t.Errorf("the failure of MongoDB is %v, with Kafka %v", w.failures[MongoDB], w.failures[Kafka])
			}
		})
	}
}

// TestClaimOfATopicCreatedAgain checks that the topic is looked up by name if its log is gone before the claim. The committed
// offset is about the old log, even if an operator has set it.
func TestClaimOfATopicCreatedAgain(t *testing.T) {
	w, m := assigned(t)
	expect[AskTopic](t, after(w, m, ClaimRead{Of: Kafka, Err: record.ErrTopicGone})) // committed: 0, by a tool
	opened := expect[Open](t, w.Handle(m, TopicAsked{TopicID: otherTopic}))
	meaning, of := w.provenance().Meaning(*w.assigned.From)
	if opened.Source.TopicID != otherTopic || meaning != claim.OtherTopic || of.TopicID != thisTopic {
		t.Errorf("goes on with %+v, what is committed means %d, of %x", opened.Source, meaning, of.TopicID)
	}
}
