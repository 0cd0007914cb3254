package hostile

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"waterwheel/e2e/check"
	"waterwheel/e2e/harness"
)

// limit is the MEMORY_LIMIT of these tests, in bytes.
const limit = 128 << 20

// good returns an event that can be stored.
func good(n int) []byte {
	return fmt.Appendf(nil, `{"time":%d,"meta":{"sensor":%d},"v":%d}`, time.Now().UnixMilli(), n%10, n)
}

// deadLetters returns the records of the dead-letter topic.
func (r *trial) deadLetters() []check.Record {
	r.t.Helper()
	ctx := within(r.t, 30*time.Second)
	topic, found, err := r.kafka.Topic(ctx, r.topic+".dlq")
	if err != nil || !found {
		r.t.Fatalf("the dead-letter topic is there: %v, %v", found, err)
	}
	letters, err := r.kafka.Read(ctx, topic)
	if err != nil {
		r.t.Fatal(err)
	}
	return letters
}

// stored waits until the metric of the consumer reports this many stored measurements.
func (r *trial) stored(c *harness.Consumer, want float64) {
	r.t.Helper()
	r.awaitMetric(c, want, "waterwheel_measurements_stored_total")
}

// TestArrayOfBadElements produces an array of 300,000 bad elements under a key of 400 KB, which needs only a few hundred bytes
// when it is compressed. It must become one letter, and the other records must be stored.
func TestArrayOfBadElements(t *testing.T) {
	t.Parallel()
	r := newTrial(t, 1)
	value := append(append([]byte("[1"), bytes.Repeat([]byte(",1"), 299_999)...), ']')
	key := bytes.Repeat([]byte("k"), 400<<10)
	r.mustProduce(0, zstd, record{value: good(0)}, record{key: key, value: value}, record{value: good(1)})
	c := r.start("MEMORY_LIMIT", fmt.Sprint(limit))
	r.awaitCommitted(c, 30*time.Second)
	r.staysWithin(c, limit)
	r.stored(c, 2)
	r.terminate(c)
	letters := r.deadLetters()
	if len(letters) != 1 {
		t.Fatalf("%d letters", len(letters))
	}
	l := letters[0]
	if l.Headers["waterwheel.reason"] != "bad_elements" || !strings.Contains(l.Headers["__connect.errors.exception.message"], "300000 elements") {
		t.Errorf("the letter says %v", l.Headers)
	}
	if _, part := l.Headers["waterwheel.part"]; part {
		t.Error("the letter is about one element")
	}
}

// TestFloodOfBadRecords produces one batch with so many bad records that their letters do not fit into memory, and kills a
// consumer while it processes them. Each bad record must become a letter, and the records after them must be stored.
func TestFloodOfBadRecords(t *testing.T) {
	t.Parallel()
	n := 60_000
	r := newTrial(t, 1)
	var encoded []byte
	for i := range n {
		encoded = record{offset: int64(i), key: []byte("k"), value: []byte("{")}.appendTo(encoded)
	}
	if err := r.produce(0, recordBatch(zstd, n, compressed(t, zstd, encoded))); err != nil {
		t.Fatal(err)
	}
	r.mustProduce(0, plain, record{value: good(0)})
	c := r.start("MEMORY_LIMIT", fmt.Sprint(limit))
	r.awaitMetric(c, float64(n/10), "waterwheel_dead_letters_total")
	r.staysWithin(c, limit)
	c.Kill()
	c = r.start("MEMORY_LIMIT", fmt.Sprint(limit))
	r.awaitCommitted(c, 2*time.Minute)
	r.staysWithin(c, limit)
	r.stored(c, 1)
	r.terminate(c)
	seen := map[string]bool{}
	letters := r.deadLetters()
	for i := range letters {
		seen[letters[i].Headers["__connect.errors.offset"]] = true
	}
	if len(seen) != n || len(letters) > 2*n {
		t.Errorf("%d letters of %d records, want of %d", len(letters), len(seen), n)
	}
}
