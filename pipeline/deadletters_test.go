package pipeline

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"strings"
	"testing"
	"time"

	"waterwheel/bucketer"
	"waterwheel/internal/measurement"
	"waterwheel/internal/record"
)

// bads returns n bad records from an offset on.
func bads(from int64, n int) record.Batch {
	b := record.Batch{Next: from + int64(n), End: from + int64(n)}
	for i := range n {
		b.Records = append(b.Records, recordOf(from+int64(i), "{"))
	}
	return b
}

// TestFullLetterBufferStopsTaking checks a batch of bad records. The worker takes only as many as the letter buffer holds, and
// does not fetch again before the letters are written.
func TestFullLetterBufferStopsTaking(t *testing.T) {
	w, m := newTestWorker(t, func(o *Options) { o.DeadLetterBuffer = 10_000 })
	batch := bads(0, 1000)
	actions := w.Handle(m, Fetched{Batch: batch})
	absent[Fetch](t, actions)
	letters := expect[ProduceDeadLetters](t, actions).DeadLetters
	if n := len(letters); n == 0 || n > 100 {
		t.Fatalf("%d letters in 10,000 bytes", n)
	}
	if size := w.Status(m.Now).DeadLetterBytes; size < w.o.DeadLetterBuffer || size > 2*w.o.DeadLetterBuffer {
		t.Errorf("the letters take %d bytes", size)
	}
	for range 3 {
		absent[Fetch](t, w.Handle(m, Ticked{}))
	}
	wants(t, w, 0)
	actions = w.Handle(m, DeadLettersProduced{})
	at := expect[Fetch](t, actions).Offset
	if at != int64(len(letters)) {
		t.Errorf("fetches at %d after %d letters", at, len(letters))
	}
	wants(t, w, at)
	for produced := len(letters); produced < 1000; produced += len(letters) {
		letters = expect[ProduceDeadLetters](t, w.Handle(m, Fetched{Batch: batch})).DeadLetters
		if letters[0].Offset != int64(produced) {
			t.Fatalf("letter of offset %d after %d letters", letters[0].Offset, produced)
		}
		w.Handle(m, DeadLettersProduced{})
	}
	wants(t, w, 1000)
	if size := w.Status(m.Now).DeadLetterBytes; size != 0 {
		t.Errorf("an empty dead-letter buffer takes %d bytes", size)
	}
}

// TestBatchIsTakenInPortions checks that one call takes a portion, and that the next fetch begins with the first remaining
// record.
func TestBatchIsTakenInPortions(t *testing.T) {
	w, m := newTestWorker(t, func(o *Options) { o.Portion = 500 }) // two records of about 30 bytes
	batch := record.Batch{Next: 9, End: 9}
	for i := range 4 {
		batch.Records = append(batch.Records, recordOf(int64(2*i), good)) // with gaps
	}
	for _, next := range []int64{6, 9} {
		if at := expect[Fetch](t, w.Handle(m, Fetched{Batch: batch})).Offset; at != next {
			t.Fatalf("fetches at %d, want %d", at, next)
		}
	}
	if pending := w.Status(m.Now).Pending; pending != 4 {
		t.Errorf("%d measurements are pending", pending)
	}
	wants(t, w, 0)
}

// TestLettersOfARecordShareIt checks that its key and headers are kept once, until the last of its letters is acknowledged.
func TestLettersOfARecordShareIt(t *testing.T) {
	w, m := newTestWorker(t)
	r := recordOf(0, "["+strings.Repeat("3,", 49)+"3]")
	r.Key, r.Headers = bytes.Repeat([]byte("k"), 100_000), bytes.Repeat([]byte("h"), 50_000)
	letters := expect[ProduceDeadLetters](t, w.Handle(m, Fetched{Batch: record.Batch{Records: []record.Record{r, recordOf(1, "{")}, Next: 2, End: 2}})).DeadLetters
	if len(letters) != 51 || &letters[0].Key[0] != &letters[49].Key[0] || &letters[0].Headers[0] != &letters[49].Headers[0] {
		t.Fatalf("%d letters", len(letters))
	}
	if &letters[0].Key[0] == &r.Key[0] {
		t.Error("the letters keep the batch's bytes")
	}
	if size := w.Status(m.Now).DeadLetterBytes; size < 150_000 || size > 200_000 {
		t.Errorf("the letters take %d bytes", size)
	}
	w.Handle(m, DeadLettersProduced{Written: 49, Err: errDown})
	if size := w.Status(m.Now).DeadLetterBytes; size < 150_000 {
		t.Errorf("with one letter left they take %d bytes", size)
	}
	wants(t, w, 0)
	m.Now += longestDelay
	if left := expect[ProduceDeadLetters](t, w.Handle(m, Ticked{})).DeadLetters; len(left) != 2 || left[0].Part != 49 || left[1].Offset != 1 {
		t.Fatalf("then %d letters go, the first %+v", len(left), left[0])
	}
	w.Handle(m, DeadLettersProduced{Written: 1, Err: errDown})
	if size := w.Status(m.Now).DeadLetterBytes; size > 1000 {
		t.Errorf("the letter of another record takes %d bytes", size)
	}
	wants(t, w, 1)
}

// TestLetterIsCutToItsBound checks this for values, headers and keys of any length.
func TestLetterIsCutToItsBound(t *testing.T) {
	for _, test := range []struct {
		key, value, headers int
		cut                 string
	}{
		{400, 550, 50, ""},
		{400, 900, 50, "value of 900 bytes"},
		{100_000, 10, 0, "key of 100000 bytes"},
		{0, 10, 5000, "headers of 5000 bytes"},
		{501, 5000, 63, "headers of 63 bytes, key of 501 bytes, value of 5000 bytes"},
	} {
		l := record.DeadLetter{Key: make([]byte, test.key), Value: make([]byte, test.value), Headers: make([]byte, test.headers)}
		cut(&l, 1000)
		if size := len(l.Key) + len(l.Value) + len(l.Headers); size > 1000 || l.Cut != test.cut {
			t.Errorf("%+v: %d bytes, cut %q", test, size, l.Cut)
		}
	}
}

// TestRefusedLetterStopsThePartition checks that a letter refused by the dead-letter topic is not sent again and again.
// Measurements that were read are stored, the commit stays before the letter, and the partition is handed over.
func TestRefusedLetterStopsThePartition(t *testing.T) {
	w, m := newTestWorker(t)
	batch := record.Batch{Records: []record.Record{recordOf(0, "{"), recordOf(1, "{"), recordOf(2, good)}, Next: 3, End: 3}
	expect[ProduceDeadLetters](t, w.Handle(m, Fetched{Batch: batch}))
	stop := &record.StopError{Reason: "dead_letter_refused", Detail: "raise max.message.bytes"}
	w.Handle(m, Fetched{Err: errDown})
	w.Handle(m, DeadLettersProduced{Written: 1, Err: stop})
	if why := w.Status(m.Now).Stopped; why != stop {
		t.Fatalf("stopped for %v", why)
	}
	m.Now += w.o.FlushInterval
	actions := w.Handle(m, Ticked{})
	absent[ProduceDeadLetters](t, actions)
	absent[Fetch](t, actions)
	expect[SendWrites](t, actions)
	w.Handle(m, WritesSent{Sent: []bucketer.Sent{{Result: bucketer.Applied}}})
	wants(t, w, 1)
	expect[CommitNow](t, w.Handle(m, Revoked{}))
	expect[SendRelease](t, w.Handle(m, Committed{Offset: 1, SentAt: m.Now}))
	expect[HandedOver](t, w.Handle(m, Released{}))
	if w.Bytes() > 0 {
		t.Error("the letter is kept though its record is read again")
	}
}

// TestHandleIsBounded checks that one call ends soon, for any record or batch.
func TestHandleIsBounded(t *testing.T) {
	many := record.Batch{Next: 1 << 20, End: 1 << 20}
	for i := range int64(1 << 20) {
		many.Records = append(many.Records, recordOf(i, "{"))
	}
	array := recordOf(0, "["+strings.Repeat("3,", 299_999)+"3]")
	array.Key = make([]byte, 400<<10)
	for name, batch := range map[string]record.Batch{
		"a million bad records":     many,
		"a bad array, its key long": {Records: []record.Record{array}, Next: 1, End: 1},
	} {
		w, m := newTestWorker(t)
		start := time.Now()
		w.Handle(m, Fetched{Batch: batch})
		took, size := time.Since(start), w.Status(m.Now).DeadLetterBytes
		t.Logf("%s: %v, %d bytes of letters", name, took, size)
		if took > 10*time.Second || size > 2*DefaultDeadLetterBuffer { // about ten milliseconds on an idle machine, but minutes without a bound
			t.Errorf("%s: %v, %d bytes", name, took, size)
		}
	}
}

// refusedArray returns a worker after MongoDB has refused its record of three measurements, and the worker's next actions.
func refusedArray(t *testing.T, changes ...func(*Options)) (*Worker, Moment, []Action, record.Batch) {
	t.Helper()
	w, m := newTestWorker(t, changes...)
	batch := record.Batch{Records: []record.Record{recordOf(0, fmt.Sprintf("[%s,%s,%s]", good, good, good))}, Next: 1, End: 1}
	w.Handle(m, Fetched{Batch: batch})
	m.Now += w.o.FlushInterval
	expect[SendWrites](t, w.Handle(m, Ticked{}))
	refused := bucketer.Sent{Result: bucketer.Refused, Code: 121}
	w.Handle(m, WritesSent{Sent: []bucketer.Sent{refused, refused, refused}}) // a bucket each
	return w, m, w.Handle(m, Fetched{Batch: record.Batch{Next: 1, End: 1}}), batch
}

// TestRefusedMeasurementsOfARecordAreReadOnce checks that one read makes the letters of all refused measurements of a record.
func TestRefusedMeasurementsOfARecordAreReadOnce(t *testing.T) {
	w, m, actions, batch := refusedArray(t)
	expect[ReadRecord](t, actions)
	actions = w.Handle(m, RecordRead{Batch: batch})
	absent[ReadRecord](t, actions)
	letters := expect[ProduceDeadLetters](t, actions).DeadLetters
	if len(letters) != 3 || letters[2].Part != 2 || letters[2].Reason != string(measurement.RefusedByDatabase) {
		t.Fatalf("letters are %+v", letters)
	}
}

// TestRefusedRecordIsNotReadWhileTheLetterBufferIsFull checks this because its letters would not fit.
func TestRefusedRecordIsNotReadWhileTheLetterBufferIsFull(t *testing.T) {
	w, m, actions, batch := refusedArray(t, func(o *Options) { o.DeadLetterBuffer = 1 })
	expect[ReadRecord](t, actions)
	actions = w.Handle(m, RecordRead{Batch: batch})
	if letters := expect[ProduceDeadLetters](t, actions).DeadLetters; len(letters) != 1 {
		t.Fatalf("letters are %+v", letters)
	}
	absent[ReadRecord](t, actions)
	expect[ReadRecord](t, w.Handle(m, DeadLettersProduced{}))
}

// TestCompressedRecordsCountAsWhatTheyUnfoldTo checks that one call takes as many bytes of them as of uncompressed records.
func TestCompressedRecordsCountAsWhatTheyUnfoldTo(t *testing.T) {
	decoder, err := measurement.New(measurement.Options{TimeField: "time", MetaField: "meta", Compression: measurement.Gzip})
	if err != nil {
		t.Fatal(err)
	}
	const large = 100_000
	w, m := newTestWorker(t, func(o *Options) { o.Decoder, o.Portion = decoder, 2*large })
	var batch record.Batch
	for i := range 4 {
		r := recordOf(int64(i), good[:len(good)-1]+`,"text":"`+strings.Repeat("x", large)+`"}`)
		var value bytes.Buffer
		gz := gzip.NewWriter(&value)
		if _, err := gz.Write(r.Value); err != nil {
			t.Fatal(err)
		}
		if err := gz.Close(); err != nil {
			t.Fatal(err)
		}
		r.Value = value.Bytes()
		batch.Records = append(batch.Records, r)
	}
	batch.Next, batch.End = 4, 4
	for _, next := range []int64{2, 4} {
		if at := expect[Fetch](t, w.Handle(m, Fetched{Batch: batch})).Offset; at != next {
			t.Fatalf("fetches at %d, want %d", at, next)
		}
	}
	wants(t, w, 0)
}
