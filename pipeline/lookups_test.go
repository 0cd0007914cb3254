package pipeline

import (
	"slices"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/bucketer"
	"waterwheel/internal/record"
)

// newReopeningWorker returns a worker that looks up stored buckets, in its first term.
func newReopeningWorker(t *testing.T) (*Worker, Moment) {
	t.Helper()
	return newTestWorker(t, func(o *Options) { o.Bucketing.Reopen = true })
}

func answersTo(lookups []bucketer.Lookup) []bucketer.Answer {
	answers := make([]bucketer.Answer, len(lookups))
	for i := range lookups {
		answers[i].Lookup = lookups[i]
	}
	return answers
}

// backwards returns records of one series, each three hours before the last one.
func backwards(n int64) record.Batch {
	b := record.Batch{Next: n, End: n}
	for i := range n {
		b.Records = append(b.Records, hourly(i, 3*int(n-i)))
	}
	return b
}

func TestLookupsOfOneSeriesAreAskedTogether(t *testing.T) {
	w, m := newReopeningWorker(t)
	asked := expect[FindBuckets](t, w.Handle(m, Fetched{Batch: backwards(5)})).Lookups
	if len(asked) != 5 {
		t.Fatalf("%d look-ups are asked for together, want 5", len(asked))
	}
	if bytes := w.yetToTake(); bytes != 5*awaitingBytes {
		t.Errorf("%d bytes are yet to be taken, want those of 5 buckets", bytes)
	}
	absent[FindBuckets](t, w.Handle(m, BucketsFound{Answers: answersTo(asked)}))
	if n := w.Status(m.Now).Pending; n != 5 {
		t.Errorf("%d measurements go on, want 5", n)
	}
}

func TestUnansweredLookupsAreAskedAgain(t *testing.T) {
	w, m := newReopeningWorker(t)
	batch := backwards(3)
	batch.Records = append(batch.Records, otherSeries(3))
	batch.Next, batch.End = 4, 4
	asked := expect[FindBuckets](t, w.Handle(m, Fetched{Batch: batch})).Lookups
	other := slices.IndexFunc(asked, func(l bucketer.Lookup) bool { return l.Series != asked[0].Series })
	if other < 1 || asked[other].Ahead {
		t.Fatalf("look-ups %+v, want those of two series", asked)
	}
	again := expect[FindBuckets](t, w.Handle(m, BucketsFound{Answers: answersTo(asked[other:])})).Lookups
	if len(again) != 1 || !again[0].IsSame(&asked[0]) {
		t.Fatalf("%+v is asked again, want the one that is not ahead", again)
	}
	last := expect[FindBuckets](t, w.Handle(m, BucketsFound{Answers: answersTo(again)})).Lookups
	if len(last) != 2 || !last[0].IsSame(&asked[1]) {
		t.Errorf("%+v is asked last, want what was looked up ahead", last)
	}
}

// TestLookupsWaitForMemory checks that parked measurements do not become buckets before a flush has freed memory.
func TestLookupsWaitForMemory(t *testing.T) {
	w, m := newReopeningWorker(t)
	asked := expect[FindBuckets](t, w.Handle(m, Fetched{Batch: backwards(2)})).Lookups
	w.Handle(m, BucketsFound{Answers: answersTo(asked)})
	m.Full = true
	batch := record.Batch{Records: []record.Record{otherSeries(2)}, Next: 3, End: 3}
	actions := w.Handle(m, Fetched{Batch: batch})
	absent[FindBuckets](t, actions)
	sent := expect[SendWrites](t, actions).Writes
	expect[FindBuckets](t, w.Handle(m, WritesSent{Sent: make([]bucketer.Sent, len(sent))}))
}

func TestAnswersCountInTheBudget(t *testing.T) {
	document := bson.Raw(make([]byte, 1000))
	answers := answersTo(make([]bucketer.Lookup, 10))
	for i := range answers {
		answers[i].Candidates = []bucketer.Candidate{{Document: document}, {Document: slices.Clone(document)}}
	}
	bytes := answerBytes(answers)
	if bytes < 11*1000 || bytes > 20*1000 {
		t.Errorf("10 answers with 11 documents of 1000 bytes count as %d", bytes)
	}
	w, _ := newTestWorker(t)
	b := NewBudget(100_000)
	b.Use(w, 5)
	b.Found(w, bytes)
	if total := b.Total(); total != bytes+5 {
		t.Errorf("the budget counts %d bytes, want %d", total, bytes+5)
	}
	b.Found(w, 0)
	if total := b.Total(); total != 5 {
		t.Errorf("taken answers count for %d bytes", total-5)
	}
}
