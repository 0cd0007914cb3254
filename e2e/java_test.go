package e2e_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"waterwheel/e2e/events"
)

// kafkaTool runs one of Kafka's own Java programs and returns its output. E2E_KAFKA_TOOL is the command that runs a class of
// Kafka's jars, such as "kafka-run-class.sh". Without it the test is skipped.
func kafkaTool(t *testing.T, ctx context.Context, input []byte, class string, args ...string) string {
	t.Helper()
	words := append(toolCommand(t), append([]string{class}, args...)...)
	command := exec.CommandContext(ctx, words[0], words[1:]...)
	command.Stdin = bytes.NewReader(input)
	output, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("running %s: %v\n%s", class, err, output)
	}
	return string(output)
}

// toolCommand returns the command of E2E_KAFKA_TOOL. It skips the test without this command or without a real Kafka.
func toolCommand(t *testing.T) []string {
	t.Helper()
	words := strings.Fields(os.Getenv("E2E_KAFKA_TOOL"))
	if len(words) == 0 || !world.servers.GivenKafka {
		t.Skip("E2E_KAFKA_TOOL or E2E_KAFKA_BROKERS is not set: Kafka's own Java programs are not tried")
	}
	return words
}

// TestStoresWhatJavaProduces stores records of Kafka's console producer with every codec, and transactions of its performance
// producer. Commits must pass the control records of the transactions.
func TestStoresWhatJavaProduces(t *testing.T) {
	toolCommand(t)
	t.Parallel()
	series, records := 500, 5_000 // for each codec
	if world.servers.Slow() {
		series, records = 30, 300
	}
	s := newStream(t, 4)
	g := s.generator(series)
	ctx := within(t, 2*time.Minute)
	for _, codec := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		kafkaTool(t, ctx, s.lines(g, records), "org.apache.kafka.tools.ConsoleProducer",
			"--bootstrap-server", world.servers.Brokers, "--topic", s.topic, "--compression-codec", codec,
			"--producer-property", "acks=all", "--producer-property", "linger.ms=20",
			"--property", "parse.key=true", "--property", "null.marker=NULL")
	}

	payloads := filepath.Join(t.TempDir(), "payloads")
	if err := os.WriteFile(payloads, s.payloads(g, 200), 0o600); err != nil {
		t.Fatal(err)
	}
	kafkaTool(t, ctx, nil, "org.apache.kafka.tools.ProducerPerformance",
		"--topic", s.topic, "--num-records", "500", "--throughput", "1000", "--payload-file", payloads,
		"--transactional-id", s.topic, "--transaction-duration-ms", "50",
		"--producer-props", "bootstrap.servers="+world.servers.Brokers, "acks=all")

	c := s.start()
	s.awaitCommitted(c, 90*time.Second)
	s.terminate(c)
	if report := s.check(); report.Records != 5*records+500 {
		t.Errorf("%d records in the topic, want %d", report.Records, 5*records+500)
	}
}

// lines returns generated events in the format of the console producer, which is key, tab, value. It leaves out events that are
// not UTF-8, because the producer reads text.
func (s *stream) lines(g *events.Generator, n int) []byte {
	var b bytes.Buffer
	for n > 0 {
		e := s.book.Add(g.Next())
		if e.Fate.Reason == "bad_utf8" {
			continue
		}
		n--
		value := e.Value
		if value == nil {
			value = []byte("NULL")
		}
		b.Write(e.Key)
		b.WriteByte('\t')
		b.Write(value)
		b.WriteByte('\n')
	}
	return b.Bytes()
}

// payloads returns values from which the performance producer picks at random, so that some of them are sent several times.
func (s *stream) payloads(g *events.Generator, n int) []byte {
	var b bytes.Buffer
	for n > 0 {
		e := g.Next()
		if len(e.Value) == 0 || e.Fate.Reason == "bad_utf8" {
			continue
		}
		n--
		b.Write(s.book.Add(e).Value)
		b.WriteByte('\n')
	}
	return b.Bytes()
}

// TestKafkaShowsOurGroup checks that Kafka's own command shows the group, its member and no lag.
func TestKafkaShowsOurGroup(t *testing.T) {
	toolCommand(t)
	t.Parallel()
	s := newStream(t, 2)
	ctx := within(t, time.Minute)
	if err := s.send(ctx, s.generator(20), 200); err != nil {
		t.Fatal(err)
	}
	c := s.start()
	s.awaitCommitted(c, 60*time.Second)
	output := kafkaTool(t, ctx, nil, "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
		"--bootstrap-server", world.servers.Brokers, "--describe", "--group", s.settings["KAFKA_GROUP_ID"])
	partitions := 0
	for line := range strings.Lines(output) {
		// GROUP TOPIC PARTITION CURRENT-OFFSET LOG-END-OFFSET LAG CONSUMER-ID HOST CLIENT-ID
		columns := strings.Fields(line)
		if len(columns) < 9 || columns[0] != s.settings["KAFKA_GROUP_ID"] {
			continue
		}
		partitions++
		if columns[3] != columns[4] || columns[5] != "0" || columns[6] == "-" {
			t.Errorf("a partition with lag or without member: %s", line)
		}
	}
	if partitions != 2 {
		t.Errorf("the group shows %d partitions, want 2:\n%s", partitions, output)
	}
	s.terminate(c)
}
