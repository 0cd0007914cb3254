package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"

	"waterwheel/config"
	"waterwheel/dlq"
	"waterwheel/internal/leak"
)

// asProgram makes the test binary be the program, for tests that kill it.
const asProgram = "CONSUMER_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	leak.Main(m)
}

// redriving is a topic with letters on the Kafka of the environment.
type redriving struct {
	env     map[string]string
	topic   string
	client  *kafka.Client
	program *program
	config  config.Config
	slog    *slog.Logger
	log     *topicLog
	id      [16]byte // the source topic's
	has     [sourcePartitions]int64
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
	r.env["KAFKA_SESSION_TIMEOUT"], r.env["KAFKA_HEARTBEAT_INTERVAL"] = "6s", "1s" // the least a broker takes
	r.client = &kafka.Client{Addr: kafka.TCP(strings.Split(brokers, ",")...), Timeout: 10 * time.Second}
	forEver := []kafka.ConfigEntry{{ConfigName: "retention.ms", ConfigValue: "-1"}}
	response, err := r.client.CreateTopics(t.Context(), &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{
		{Topic: r.topic, NumPartitions: sourcePartitions, ReplicationFactor: 1, ConfigEntries: forEver},
		{Topic: r.topic + ".dlq", NumPartitions: 2, ReplicationFactor: 1, ConfigEntries: forEver},
	}})
	if err != nil || response.Errors[r.topic] != nil {
		t.Fatalf("creating topics: %v, %v", err, response)
	}
	t.Cleanup(func() {
		_, _ = r.client.DeleteTopics(context.WithoutCancel(t.Context()), &kafka.DeleteTopicsRequest{Topics: []string{r.topic, r.topic + ".dlq"}})
	})
	r.program = &program{stdout: io.Discard, stderr: io.Discard, lookup: func(name string) (string, bool) { v, ok := r.env[name]; return v, ok }}
	if r.config, r.slog, err = r.program.quietSettings(); err != nil {
		t.Fatal(err)
	}
	if r.log, err = openTopicLog(t.Context(), r.config, r.slog, []string{r.topic}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.log.Close)
	if r.id, err = r.log.TopicID(t.Context(), r.topic); err != nil {
		t.Fatal(err)
	}
	return r
}

// letter is the one of a record of the source topic.
func (r *redriving) letter(i int) dlq.Letter {
	l := dlq.Letter{
		Topic: r.topic, TopicID: r.id, Partition: int32(i % sourcePartitions), Offset: int64(i / sourcePartitions), Part: dlq.WholeRecord,
		Value: fmt.Appendf(nil, "letter %d", i), Timestamp: 1_700_000_000_000 + int64(i), Reason: "bad_time", Stage: dlq.StageDecode,
		Headers: []dlq.Header{{Key: "own", Value: []byte{}}},
	}
	l.Key = keyIn(l.Partition)
	if i%2 == 0 {
		l.Reason = "not_json"
	}
	return l
}

// keyIn is the key of the records of a partition.
func keyIn(partition int32) []byte {
	if partition%2 == 1 {
		return nil
	}
	return []byte("key")
}

// records sees to it that the source topic has the records of so many letters.
func (r *redriving) records(t *testing.T, n int) {
	t.Helper()
	for p := range int32(sourcePartitions) {
		missing := int64(n)/sourcePartitions + 1 - r.has[p]
		if missing <= 0 {
			continue
		}
		records := make([]kafka.Record, missing)
		for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(100 * time.Millisecond) { // the leader may not be there yet
			for i := range records {
				records[i] = kafka.Record{Time: time.UnixMilli(1_700_000_000_000), Key: kafka.NewBytes(keyIn(p)), Value: kafka.NewBytes([]byte("{"))}
			}
			response, err := r.client.Produce(t.Context(), &kafka.ProduceRequest{
				Topic: r.topic, Partition: int(p), RequiredAcks: kafka.RequireAll, Records: kafka.NewRecordReader(records...),
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

// fill writes n letters, the tenth part of them twice, of records that are there.
func (r *redriving) fill(t *testing.T, n int) {
	t.Helper()
	r.records(t, n)
	r.write(t, r.letters(n)...)
}

// letters are those of so many records, the tenth part of them twice.
func (r *redriving) letters(n int) (letters []dlq.Letter) {
	for i := range n {
		letters = append(letters, r.letter(i))
		if i%10 == 0 {
			letters = append(letters, r.letter(i))
		}
	}
	return letters
}

// write writes letters.
func (r *redriving) write(t *testing.T, letters ...dlq.Letter) {
	t.Helper()
	producer, err := dlq.New(dlq.Options{Brokers: strings.Split(r.env["KAFKA_BROKERS"], ","), Sources: []string{r.topic}, TopicFor: func(source string) string { return source + ".dlq" }})
	if err != nil {
		t.Fatal(err)
	}
	defer producer.Close()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(100 * time.Millisecond) { // the leaders may not be there yet
		err := producer.Produce(t.Context(), letters)
		if err == nil {
			return
		}
		var failed *dlq.ProduceError
		if !errors.As(err, &failed) || time.Now().After(deadline) {
			t.Fatal(err)
		}
		var again []dlq.Letter
		for _, i := range failed.Unacknowledged {
			again = append(again, letters[i])
		}
		letters = again
	}
}

// redrive runs the command in this process.
func (r *redriving) redrive(t *testing.T, args ...string) RedriveView {
	t.Helper()
	code, stdout, stderr := try(t, r.env, nil, append([]string{"dlq", "redrive", "--output", "json"}, args...)...)
	var view RedriveView
	if err := json.Unmarshal([]byte(stdout), &view); code != exitDone || err != nil {
		t.Fatalf("exit code %d, %v\n%s%s", code, err, stdout, stderr)
	}
	return view
}

// returned counts the records of the source topic that went back, by value.
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
		err := r.log.Read(t.Context(), s.Topic, s.Partition, s.First, s.End, func(record *dlq.Record) error {
			if dlq.Attempt(record.Headers) == 1 {
				return nil
			}
			counts[string(record.Value)]++
			var n int
			if _, err := fmt.Sscanf(string(record.Value), "letter %d", &n); err != nil || int32(n%sourcePartitions) != s.Partition {
				t.Errorf("%q is in partition %d", record.Value, s.Partition)
			}
			if len(record.Headers) != 3 || record.Headers[0].Value == nil || record.Timestamp != 1_700_000_000_000+int64(n) ||
				(record.Key == nil) != (n%2 == 1) || dlq.Attempt(record.Headers) != 2 {
				t.Fatalf("%q came back as %+v", record.Value, record)
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

func TestKilledRedriveIsHealed(t *testing.T) {
	const n = 4000
	r := newRedriving(t)
	r.fill(t, n)
	command := exec.CommandContext(t.Context(), os.Args[0], "dlq", "redrive", "--rate", "2000")
	command.Env = append(os.Environ(), asProgram+"=1")
	for name, value := range r.env {
		command.Env = append(command.Env, name+"="+value)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(30 * time.Second); len(r.returned(t)) < 600; {
		if time.Now().After(deadline) {
			t.Fatal("nothing goes back")
		}
	}
	if err := command.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = command.Wait() // killed
	t.Logf("killed when %d of %d letters were back", len(r.returned(t)), n)
	last := r.redrive(t)
	t.Logf("then %d went back, %d had arrived", last.Driven, last.Arrived)
	r.isOnce(t, n)
}

// deaf is a group of whose commits only those before a parcel arrive: what a crash between producing and committing leaves.
type deaf struct{ *redriveMembership }

var errCrash = errors.New("crashed")

func (d deaf) Commit(ctx context.Context, place dlq.Place, offset int64, metadata string) error {
	if metadata == "" {
		return errCrash
	}
	return d.redriveMembership.Commit(ctx, place, offset, metadata)
}

// allLetters are those that a re-drive without filters takes.
func allLetters() dlq.Selection { return dlq.Selection{MaxAttempts: dlq.DefaultMaxAttempts} }

// redriveIn re-drives all letters in this process, as a member of which with makes what is asked before each request, and
// what commits.
func (r *redriving) redriveIn(
	t *testing.T, with func(*redriveMembership) (hold func(context.Context) error, commits dlq.Progress),
) (report dlq.Report, err error) {
	t.Helper()
	reader, err := r.program.openLetters(t.Context(), r.config, r.slog)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	err = withRedriveGroup(t.Context(), r.config, r.slog, reader, redriveGroup(r.config, allLetters()), func(ctx context.Context, m *redriveMembership) error {
		spans, err := dlq.Spans(ctx, reader, reader.topics)
		if err != nil {
			return err
		}
		hold, commits := with(m)
		returner := dlq.NewReturner(r.config.Kafka.Brokers, &kafka.Transport{MetadataTopics: []string{r.topic}}, 0, hold)
		defer returner.Close()
		o := dlq.RedriveOptions{Selection: allLetters(), Sources: []string{r.topic}, Own: dlq.Past{Selection: allLetters(), Committed: m.committed()}}
		report, err = dlq.NewRedrive(reader, returner, commits, o).Run(ctx, spans)
		return err
	})
	return report, err
}

func TestCrashBetweenProduceAndCommit(t *testing.T) {
	const n = 1200
	r := newRedriving(t)
	r.fill(t, n)
	report, err := r.redriveIn(t, func(m *redriveMembership) (func(context.Context) error, dlq.Progress) { return m.hold, deaf{m} })
	if crashed := len(r.returned(t)); !errors.Is(err, errCrash) || crashed == 0 || crashed == n {
		t.Fatalf("%v, %d letters back: %+v", err, crashed, report)
	}
	code, _, stderr := try(t, r.env, nil, "dlq", "redrive", "--reason", "not_json")
	if code != exitFailed || !strings.Contains(stderr, `run "consumer dlq redrive", then this again`) {
		t.Errorf("another selection after the crash: exit code %d, %s", code, stderr)
	}
	last := r.redrive(t)
	if last.Arrived == 0 || last.Arrived+last.Driven != n {
		t.Errorf("%+v", last)
	}
	t.Logf("%d had arrived, %d went back", last.Arrived, last.Driven)
	r.isOnce(t, n)
}

func TestTwoRedrivesDoNotRunAtOnce(t *testing.T) {
	r := newRedriving(t)
	r.fill(t, 100)
	reader, err := r.program.openLetters(t.Context(), r.config, r.slog)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	err = withRedriveGroup(t.Context(), r.config, r.slog, reader, redriveGroup(r.config, dlq.Selection{MaxAttempts: 3}), func(context.Context, *redriveMembership) error {
		code, _, stderr := try(t, r.env, nil, "dlq", "redrive", "--reason", "bad_time")
		if code != exitFailed || !strings.Contains(stderr, "another re-drive is running") {
			t.Errorf("exit code %d, %s", code, stderr)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if after := r.redrive(t); after.Driven != 100 {
		t.Errorf("after it: %+v", after)
	}
}
