package hostile

import (
	"bytes"
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"waterwheel/e2e/harness"
)

// nulls are records with a key, a value and a header value of length −2, which the Java client reads as null.
var nulls = []record{
	{fields: append([]byte{3}, append(appendBytes(nil, []byte("{")), 0)...)},
	{fields: []byte{1, 3, 0}},
	{value: []byte("{"), headers: []byte{2, 2, 'h', 3}},
}

// TestLengthsBelowNull checks that the program reads records that only an attacker writes and that Java reads, also in a
// dead-letter topic.
func TestLengthsBelowNull(t *testing.T) {
	t.Parallel()
	r := newTrial(t, 1)
	r.mustProduce(0, plain, nulls...)
	r.mustProduce(0, zstd, append(nulls, record{value: good(0)})...)
	c := r.start()
	r.awaitCommitted(c, 30*time.Second)
	r.stored(c, 1)
	r.terminate(c)
	if letters := r.deadLetters(); len(letters) != 4 {
		t.Errorf("%d letters, want 4", len(letters))
	}
	topic := r.topic
	r.topic += ".dlq"
	r.mustProduce(0, plain, nulls...)
	r.topic = topic
	for _, args := range [][]string{{"dlq", "list"}, {"dlq", "stats"}, {"dlq", "redrive", "--dry-run"}, {"verify", "--topic", topic}} {
		if code, output := r.run(nil, args...); code != 0 {
			t.Errorf("%v ends with %d: %s", args, code, output)
		}
	}
}

// run runs a command of the program until it ends.
func (r *trial) run(settings []string, args ...string) (code int, output string) {
	r.t.Helper()
	c, err := harness.Start(world.binary, r.settings.With(settings...), args...)
	if err != nil {
		r.t.Fatal(err)
	}
	code, err = c.Wait(within(r.t, 30*time.Second))
	if err != nil {
		r.t.Fatal(err)
	}
	return code, c.Log()
}

// TestUnreadableBatchIsSkippedOnDemand produces a record batch that the broker accepts and that no client can read. It must stop
// its partition, with a message that names the setting to change. With that setting, the batch must become a letter with its
// bytes, and the records around it must be stored.
func TestUnreadableBatchIsSkippedOnDemand(t *testing.T) {
	t.Parallel()
	r := newTrial(t, 1)
	r.mustProduce(0, plain, record{value: good(0)}, record{value: good(1)})
	encoded := record{offset: 1, value: good(3)}.appendTo(record{value: good(2), lie: 1}.appendTo(nil))
	bad := recordBatch(gzip, 2, compressed(t, gzip, encoded))
	if err := r.produce(0, bad); err != nil {
		t.Skipf("this Kafka refuses such a batch: %v", err)
	}
	r.mustProduce(0, plain, record{value: good(4)})
	place := r.topic + "/0/2"

	c := r.start()
	sentence := r.awaitStop(c)
	if !strings.Contains(sentence, "KAFKA_SKIP_CORRUPT="+place) {
		t.Fatalf("the partition stopped and says %q", sentence)
	}
	r.stored(c, 2)
	r.terminate(c)
	c = r.start("KAFKA_SKIP_CORRUPT", r.topic+"/0/1") // the setting names another offset, so nothing is skipped
	r.awaitStop(c)
	r.terminate(c)

	skipping := []string{"KAFKA_SKIP_CORRUPT", "elsewhere/1/2," + place}
	c = r.start(skipping...)
	r.awaitCommitted(c, 30*time.Second)
	r.stored(c, 1)
	r.awaitMetric(c, 1, "waterwheel_unreadable_batches_skipped_total")
	r.terminate(c)
	letters := r.deadLetters()
	if len(letters) != 1 || letters[0].Headers["waterwheel.reason"] != "unreadable" || letters[0].Headers["__connect.errors.offset"] != "2" {
		t.Fatalf("%d letters: %+v", len(letters), letters)
	}
	if got := letters[0].Value; len(got) != len(bad) || !bytes.Equal(got[61:], bad[61:]) { // the broker changes fields of the header
		t.Errorf("the letter has %d bytes of the batch's %d", len(got), len(bad))
	}
	if code, output := r.run(nil, "verify", "--topic", r.topic); code != 1 || !strings.Contains(output, "KAFKA_SKIP_CORRUPT="+place) {
		t.Errorf("verify without the setting ends with %d: %s", code, output)
	}
	if code, output := r.run(skipping, "verify", "--topic", r.topic); code != 0 {
		t.Errorf("verify ends with %d: %s", code, output)
	}
	if code, output := r.run(skipping, "dlq", "redrive", "--yes"); code != 0 {
		t.Errorf("redrive ends with %d: %s", code, output)
	}
}

// awaitStop waits until a partition has stopped, and returns the text of /readyz.
func (r *trial) awaitStop(c *harness.Consumer) string {
	r.t.Helper()
	r.awaitMetric(c, 1, "waterwheel_partitions_stopped")
	ctx, cancel := context.WithTimeout(r.t.Context(), 5*time.Second)
	defer cancel()
	status, body, err := c.Get(ctx, "/readyz")
	if err != nil || status != http.StatusServiceUnavailable {
		r.t.Fatalf("/readyz: %d, %v", status, err)
	}
	return body
}

// TestDeadLetterTopicOfShortLetters checks that letters are cut to the largest size that their topic accepts, whatever part of
// them is long.
func TestDeadLetterTopicOfShortLetters(t *testing.T) {
	t.Parallel()
	r := newTrial(t, 1)
	if err := world.servers.CreateTopic(within(t, 20*time.Second), r.topic+".dlq", 1, "max.message.bytes", "20000"); err != nil {
		t.Fatal(err)
	}
	long := bytes.Repeat([]byte("x"), 100_000)
	header := append([]byte{2, 2, 'h'}, appendBytes(nil, long)...)
	r.mustProduce(0, zstd, record{value: []byte("{")}, record{value: long}, record{key: long, value: []byte("{")},
		record{value: []byte("{"), headers: header}, record{value: good(0)})
	c := r.start()
	r.awaitCommitted(c, 30*time.Second)
	r.stored(c, 1)
	r.terminate(c)
	letters := r.deadLetters()
	if len(letters) != 4 {
		t.Fatalf("%d letters, want 4", len(letters))
	}
	for i, want := range []string{"", "value of 100000 bytes", "key of 100000 bytes", "1 header"} {
		if got := letters[i].Headers["waterwheel.cut"]; got != want {
			t.Errorf("letter %d lacks %q, want %q", i, got, want)
		}
	}
}

// TestDeadLetterTopicThatTakesNoLetter checks that the partition stops with a message that names the setting of the topic. After
// the topic is deleted, the partition must continue with a restart.
func TestDeadLetterTopicThatTakesNoLetter(t *testing.T) {
	t.Parallel()
	for name, setting := range map[string][2]string{
		"short":     {"max.message.bytes", "200"},
		"compacted": {"cleanup.policy", "compact"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if name == "compacted" && !world.servers.GivenKafka {
				t.Skip("the embedded Kafka compacts nothing, and takes records without a key: E2E_KAFKA_BROKERS is not set")
			}
			r := newTrial(t, 1)
			if err := world.servers.CreateTopic(within(t, 20*time.Second), r.topic+".dlq", 1, setting[0], setting[1]); err != nil {
				t.Fatal(err)
			}
			r.mustProduce(0, plain, record{value: good(0)}, record{value: []byte("{")}, record{value: good(1)})
			c := r.start()
			if sentence := r.awaitStop(c); !strings.Contains(sentence, setting[0]) || !strings.Contains(sentence, r.topic+".dlq") {
				t.Errorf("the partition stopped and says %q", sentence)
			}
			r.stored(c, 2)
			r.terminate(c)
			if err := world.servers.DeleteTopics(within(t, 20*time.Second), r.topic+".dlq"); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			c = r.start()
			r.awaitCommitted(c, 30*time.Second)
			r.terminate(c)
			if letters := r.deadLetters(); len(letters) != 1 {
				t.Errorf("%d letters", len(letters))
			}
		})
	}
}
