package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"waterwheel/config"
	"waterwheel/dlq"
	"waterwheel/internal/cli"
	"waterwheel/internal/connect"
	"waterwheel/internal/kafka"
	"waterwheel/internal/kafka/recordbatch"
	"waterwheel/internal/record"
)

// redriving is a topic with letters on the Kafka server of the environment.
type redriving struct {
	env    map[string]string
	topic  string
	client *kafkago.Client
	config config.Config
	log    *kafka.Scanner
	id     [16]byte // of the source topic
	has    [sourcePartitions]int64
}

const sourcePartitions = 4

func newRedriving(t *testing.T) *redriving {
	t.Helper()
	brokers := os.Getenv("E2E_KAFKA_BROKERS")
	if brokers == "" {
		t.Skip("E2E_KAFKA_BROKERS is not set: no real Kafka to test with")
	}
	r := &redriving{env: settings(), topic: fmt.Sprintf("redrive-test-%d", time.Now().UnixNano())}
	r.env["KAFKA_BROKERS"], r.env["KAFKA_TOPICS"], r.env["KAFKA_GROUP_ID"] = brokers, r.topic, r.topic
	r.env["KAFKA_SESSION_TIMEOUT"], r.env["KAFKA_HEARTBEAT_INTERVAL"] = "6s", "1s" // the smallest values that a broker accepts
	r.client = &kafkago.Client{Addr: kafkago.TCP(strings.Split(brokers, ",")...), Timeout: 10 * time.Second}
	forEver := []kafkago.ConfigEntry{{ConfigName: "retention.ms", ConfigValue: "-1"}}
	response, err := r.client.CreateTopics(t.Context(), &kafkago.CreateTopicsRequest{Topics: []kafkago.TopicConfig{
		{Topic: r.topic, NumPartitions: sourcePartitions, ReplicationFactor: 1, ConfigEntries: forEver},
		{Topic: r.topic + ".dlq", NumPartitions: 2, ReplicationFactor: 1, ConfigEntries: forEver},
	}})
	if err != nil || response.Errors[r.topic] != nil {
		t.Fatalf("creating topics: %v, %v", err, response)
	}
	t.Cleanup(func() {
		_, _ = r.client.DeleteTopics(context.WithoutCancel(t.Context()), &kafkago.DeleteTopicsRequest{Topics: []string{r.topic, r.topic + ".dlq"}})
	})
	if r.config, err = config.Load(func(name string) (string, bool) { v, ok := r.env[name]; return v, ok }, nil); err != nil {
		t.Fatal(err)
	}
	if r.log, err = connect.OpenTopicLog(t.Context(), r.config, slog.New(slog.DiscardHandler), []string{r.topic}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.log.Close)
	if r.id, err = r.log.TopicID(t.Context(), r.topic); err != nil {
		t.Fatal(err)
	}
	return r
}

// deadLetter returns the letter for a record of the source topic.
func (r *redriving) deadLetter(i int) record.DeadLetter {
	l := record.DeadLetter{
		Place:   record.Place{Partition: record.Partition{Topic: r.topic, Number: int32(i % sourcePartitions)}, Offset: int64(i / sourcePartitions)},
		TopicID: r.id, Part: record.WholeRecord, Value: fmt.Appendf(nil, "letter %d", i), Timestamp: 1_700_000_000_000 + int64(i), Reason: "bad_time",
		Headers: []byte("\x02\x06own\x00"), // one header, "own", with an empty value
	}
	l.Key = keyIn(l.Number)
	if i%2 == 0 {
		l.Reason = "not_json"
	}
	return l
}

// keyIn returns the key of the records in a partition.
func keyIn(partition int32) []byte {
	if partition%2 == 1 {
		return nil
	}
	return []byte("key")
}

// records makes sure that the source topic has the records for n letters.
func (r *redriving) records(t *testing.T, n int) {
	t.Helper()
	for p := range int32(sourcePartitions) {
		missing := int64(n)/sourcePartitions + 1 - r.has[p]
		if missing <= 0 {
			continue
		}
		records := make([]kafkago.Record, missing)
		for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(100 * time.Millisecond) { // there may be no leader yet
			for i := range records {
				records[i] = kafkago.Record{Time: time.UnixMilli(1_700_000_000_000), Key: kafkago.NewBytes(keyIn(p)), Value: kafkago.NewBytes([]byte("{"))}
			}
			response, err := r.client.Produce(t.Context(), &kafkago.ProduceRequest{
				Topic: r.topic, Partition: int(p), RequiredAcks: kafkago.RequireAll, Records: kafkago.NewRecordReader(records...),
			})
			if err == nil && response.Error == nil {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("writing records: %v, %+v", err, response)
			}
		}
		r.has[p] += missing
	}
}

// fill writes n letters for existing records. A tenth of them is written twice.
func (r *redriving) fill(t *testing.T, n int) {
	t.Helper()
	r.records(t, n)
	r.write(t, r.deadLetters(n)...)
}

// deadLetters returns the letters for n records. A tenth of them is there twice.
func (r *redriving) deadLetters(n int) (letters []record.DeadLetter) {
	for i := range n {
		letters = append(letters, r.deadLetter(i))
		if i%10 == 0 {
			letters = append(letters, r.deadLetter(i))
		}
	}
	return letters
}

// write writes letters.
func (r *redriving) write(t *testing.T, letters ...record.DeadLetter) {
	t.Helper()
	producer := dlq.New(r.log.Client, connect.DeadLetterOptions(r.config))
	defer producer.Close()
	for deadline := time.Now().Add(20 * time.Second); len(letters) > 0; time.Sleep(100 * time.Millisecond) { // there may be no leaders yet
		n, err := producer.Produce(t.Context(), letters)
		if err != nil && time.Now().After(deadline) {
			t.Fatal(err)
		}
		letters = letters[n:]
	}
}

// redriveArgs returns the arguments of a command that executes the redrive, unless it is a dry run.
func redriveArgs(args []string) []string {
	if !slices.Contains(args, "--dry-run") {
		args = append(args, "--yes")
	}
	return append([]string{"dlq", "redrive"}, args...)
}

// redrive runs the command in this process.
func (r *redriving) redrive(t *testing.T, args ...string) cli.RedriveView {
	t.Helper()
	code, stdout, stderr := try(t, r.env, redriveArgs(append([]string{"--output", "json"}, args...))...)
	var view cli.RedriveView
	if err := json.Unmarshal([]byte(stdout), &view); code != exitDone || err != nil {
		t.Fatalf("exit code %d, %v\n%s%s", code, err, stdout, stderr)
	}
	return view
}

// returned counts the redriven records in the source topic by value.
func (r *redriving) returned(t *testing.T) map[string]int {
	t.Helper()
	counts := map[string]int{}
	spans, err := dlq.Spans(t.Context(), r.log, []string{r.topic})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range spans {
		if s.First == s.End {
			continue
		}
		_, err := r.log.Scan(t.Context(), s.Partition, s.First, s.End, func(one *record.Record) error {
			headers, err := recordbatch.ParseHeaders(one.Headers)
			if err != nil {
				return err
			}
			if dlq.AttemptOf(headers) == 1 {
				return nil
			}
			counts[string(one.Value)]++
			var n int
			if _, err := fmt.Sscanf(string(one.Value), "letter %d", &n); err != nil || int32(n%sourcePartitions) != s.Number {
				t.Errorf("%q is in partition %d", one.Value, s.Number)
			}
			if len(headers) != 3 || headers[0].Value == nil || one.Timestamp != 1_700_000_000_000+int64(n) ||
				(one.Key == nil) != (n%2 == 1) || dlq.AttemptOf(headers) != 2 {
				t.Fatalf("%q came back as %+v", one.Value, one)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return counts
}

func (r *redriving) isOnce(t *testing.T, n int) {
	t.Helper()
	counts := r.returned(t)
	for value, count := range counts {
		if count != 1 {
			t.Errorf("%q went back %d times", value, count)
		}
	}
	if len(counts) != n {
		t.Errorf("%d letters went back, want %d", len(counts), n)
	}
}

// TestReasonsThatThereAreNotEndAllCommandsAlike uses unknown reasons. The exit code must be that of wrong usage if no letter is
// selected, and the command must do its work if some are.
func TestReasonsThatThereAreNotEndAllCommandsAlike(t *testing.T) {
	r := newRedriving(t)
	r.fill(t, 4)
	for _, command := range []string{"list", "stats", "redrive"} {
		for reasons, want := range map[string]int{"org.example.Oops": exitUsage, "bad_number": exitDone, "bad_time,org.example.Oops": exitDone} {
			args := []string{"dlq", command, "--reason", reasons}
			if command == "redrive" {
				args = append(args, "--dry-run")
			}
			code, stdout, stderr := try(t, r.env, args...)
			told := strings.Contains(stderr, `No dead letter has the reason "org.example.Oops", and the program has no such reason. Its reasons: not_json, `)
			if code != want || told != strings.Contains(reasons, "Oops") {
				t.Errorf("%v: exit code %d, want %d\n%s%s", args, code, want, stdout, stderr)
			}
		}
	}
}

func TestTenThousandLettersGoBackOnce(t *testing.T) {
	const n = 10_000
	r := newRedriving(t)
	r.fill(t, n)
	if dry := r.redrive(t, "--dry-run"); dry.Driven != n || dry.Doubles != n/10 || len(r.returned(t)) != 0 {
		t.Errorf("dry run: %+v", dry)
	}
	if some := r.redrive(t, "--reason", "bad_time", "--limit", "1234"); some.Driven != 1234 {
		t.Errorf("one reason: %+v", some)
	}
	begin := time.Now()
	rest := r.redrive(t)
	t.Logf("%d letters in %v", rest.Driven, time.Since(begin))
	if rest.Driven != n-1234 {
		t.Errorf("the rest: %+v", rest)
	}
	if again := r.redrive(t); again.Driven != 0 || again.Total != 0 {
		t.Errorf("the second time: %+v", again)
	}
	if again := r.redrive(t, "--reason", "bad_time"); again.Driven != 0 {
		t.Errorf("one reason, the second time: %+v", again)
	}
	r.isOnce(t, n)
}

// start runs the command in a separate process, and waits until this many letters are redriven.
func (r *redriving) start(t *testing.T, letters int, args ...string) *exec.Cmd {
	t.Helper()
	command := exec.CommandContext(t.Context(), os.Args[0], append([]string{"dlq", "redrive", "--yes"}, args...)...)
	command.Env = append(os.Environ(), asProgram+"=1")
	for name, value := range r.env {
		command.Env = append(command.Env, name+"="+value)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(30 * time.Second); len(r.returned(t)) < letters; {
		if time.Now().After(deadline) {
			t.Fatal("nothing goes back")
		}
	}
	return command
}

func TestKilledRedriveIsHealed(t *testing.T) {
	const n = 4000
	r := newRedriving(t)
	r.fill(t, n)
	command := r.start(t, 600, "--rate", "2000")
	if err := command.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = command.Wait() // it was killed
	t.Logf("killed when %d of %d letters were back", len(r.returned(t)), n)
	last := r.redrive(t)
	t.Logf("then %d went back, %d had arrived", last.Driven, last.Arrived)
	r.isOnce(t, n)
}

// TestStoppedRedriveSendsNothingMore stops a run for longer than its session. The run loses its group and must send nothing more,
// and the next run completes the work that it began.
func TestStoppedRedriveSendsNothingMore(t *testing.T) {
	const n = 4000
	r := newRedriving(t)
	r.fill(t, n)
	command := r.start(t, 600, "--rate", "2000")
	if err := command.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	next := r.redrive(t)
	if err := command.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if err := command.Wait(); err == nil {
		t.Error("the run that lost its group ended well")
	}
	t.Logf("the next run: %d went back, %d had arrived", next.Driven, next.Arrived)
	r.isOnce(t, n)
}

// TestCrashBetweenProduceAndCommit simulates a crash between producing a batch and committing it. The same command must find the
// rest, and until then all other commands must be refused.
func TestCrashBetweenProduceAndCommit(t *testing.T) {
	const n, driven = 400, 100
	r := newRedriving(t)
	r.fill(t, n)
	intent := ""
	for p := range int32(sourcePartitions) {
		intent += fmt.Sprintf(" %s/%d=%d", r.topic, p, r.has[p])
	}
	r.redrive(t, "--limit", strconv.Itoa(driven))
	fetched, err := r.client.OffsetFetch(t.Context(), &kafkago.OffsetFetchRequest{
		GroupID: r.topic + ".redrive", Topics: map[string][]int{r.topic + ".dlq": {0}},
	})
	if err != nil || fetched.Error != nil {
		t.Fatal(err, fetched)
	}
	until := fetched.Topics[r.topic+".dlq"][0].CommittedOffset
	answer, err := r.client.OffsetCommit(t.Context(), &kafkago.OffsetCommitRequest{
		GroupID: r.topic + ".redrive", GenerationID: -1,
		Topics: map[string][]kafkago.OffsetCommit{r.topic + ".dlq": {{Offset: 0, Metadata: fmt.Sprintf("redrive until=%d%s", until, intent)}}},
	})
	if err != nil || answer.Topics[r.topic+".dlq"][0].Error != nil {
		t.Fatal(err, answer)
	}
	code, _, stderr := try(t, r.env, "dlq", "redrive", "--yes", "--reason", "not_json")
	if code != exitFailed || !strings.Contains(stderr, `first run "waterwheel dlq redrive --yes" to finish that redrive`) {
		t.Errorf("another selection after the crash: exit code %d, %s", code, stderr)
	}
	if last := r.redrive(t); last.Arrived != driven || last.Driven != n-driven {
		t.Errorf("%+v", last)
	}
	r.isOnce(t, n)
}

func TestTwoRedrivesDoNotRunAtOnce(t *testing.T) {
	const n = 100
	r := newRedriving(t)
	r.fill(t, n)
	command := r.start(t, 1, "--rate", "5")
	code, _, stderr := try(t, r.env, "dlq", "redrive", "--yes", "--reason", "bad_time")
	if code != exitFailed || !strings.Contains(stderr, "another redrive is running") {
		t.Errorf("exit code %d, %s", code, stderr)
	}
	if err := command.Wait(); err != nil {
		t.Error(err)
	}
	r.isOnce(t, n)
}
