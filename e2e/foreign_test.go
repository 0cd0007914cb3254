package e2e_test

import (
	"context"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"waterwheel/e2e/harness"
)

// stranger is Kafka's own console consumer in a test's group.
type stranger struct {
	command *exec.Cmd
	done    chan struct{}
}

// joinStranger starts a stranger with the given group protocol, and returns when it has committed all records.
func (s *stream) joinStranger(protocol string) *stranger {
	s.t.Helper()
	words := append(toolCommand(s.t), "org.apache.kafka.tools.consumer.ConsoleConsumer",
		"--bootstrap-server", world.servers.Brokers, "--topic", s.topic, "--group", s.group(),
		"--command-property", "group.protocol="+protocol, "--command-property", "auto.commit.interval.ms=200")
	if protocol == "classic" { // the other protocol leaves this to the broker
		words = append(words, "--command-property", "session.timeout.ms=6000")
	}
	x := &stranger{command: exec.Command(words[0], words[1:]...), done: make(chan struct{})}
	x.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // the tool is a script that starts Java
	if err := x.command.Start(); err != nil {
		s.t.Fatal(err)
	}
	go func() {
		defer close(x.done)
		_ = x.command.Wait()
	}()
	s.t.Cleanup(func() { x.leave(s.t) })
	topic, _ := s.described()
	if err := s.kafka.AwaitCommitted(within(s.t, time.Minute), s.group(), topic); err != nil {
		s.t.Fatal(err)
	}
	return x
}

// leave ends the stranger with SIGTERM.
func (x *stranger) leave(t *testing.T) {
	t.Helper()
	_ = syscall.Kill(-x.command.Process.Pid, syscall.SIGTERM)
	select {
	case <-x.done:
	case <-time.After(20 * time.Second):
		_ = syscall.Kill(-x.command.Process.Pid, syscall.SIGKILL)
		<-x.done
	}
}

// TestConsumerOfAnotherProgramIsNoticed lets Kafka's own consumer join the group while ours is stopped. It reads and commits
// records. While it runs our consumer reads nothing, and names it. After it has left, the records it has committed are stored all
// the same.
func TestConsumerOfAnotherProgramIsNoticed(t *testing.T) {
	toolCommand(t)
	for _, protocol := range []string{"consumer", "classic"} {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			s := newStream(t, 4)
			s.storing(t, 300)
			stored := s.measurements()
			ctx := within(t, 2*time.Minute)
			if err := s.send(ctx, s.generator(badCaseSeries), 300); err != nil {
				t.Fatal(err)
			}
			other := s.joinStranger(protocol)

			if code, out := s.run("check"); code != 3 || !strings.Contains(out, "console-consumer") {
				t.Errorf("check ended with code %d and does not name the other consumer:\n%s", code, out)
			}
			ours := s.start()
			if protocol == "classic" { // Kafka does not let our consumer in
				s.ends(ctx, ours, "console-consumer", "KAFKA_GROUP_ID")
			} else {
				s.awaitNotReady(ours, "console-consumer", "127.0.0.1", "KAFKA_GROUP_ID")
			}
			if n := s.measurements(); n != stored {
				t.Errorf("%d measurements were stored beside another program's consumer", n-stored)
			}
			other.leave(t)
			if protocol == "classic" {
				for _, out := s.run("check"); strings.Contains(out, "console-consumer") && ctx.Err() == nil; _, out = s.run("check") {
				}
				ours = s.start()
			}
			if err := ours.AwaitReady(ctx); err != nil { // without a restart
				t.Fatal(err)
			}
			if err := s.send(ctx, s.generator(badCaseSeries), 100); err != nil {
				t.Fatal(err)
			}
			s.awaitNoLag(ours)
			s.awaitCommitted(ours, time.Minute)
			s.terminate(ours)
			if report := s.check(); report.Records != 700 {
				t.Errorf("%d records in the topic, want 700", report.Records)
			}
		})
	}
}

// ends waits until a consumer ends by itself with code 1, and looks for words in its output.
func (s *stream) ends(ctx context.Context, c *harness.Consumer, words ...string) {
	s.t.Helper()
	code, err := c.Wait(ctx)
	if err != nil || code != 1 {
		s.t.Errorf("the consumer ended with code %d, %v; want 1", code, err)
	}
	for _, word := range words {
		if !strings.Contains(c.Log(), word) {
			s.t.Errorf("the consumer does not say %q:\n%s", word, c.Log())
		}
	}
}

// TestTopicTakenOutBesideAStaticMember has a static member that returns with one topic less. It still gets its former partitions.
// It ignores those of the removed topic, and continues with the other one.
func TestTopicTakenOutBesideAStaticMember(t *testing.T) {
	t.Parallel()
	s, removed := newStream(t, 2), newStream(t, 2)
	s.settings = s.settings.With("KAFKA_INSTANCE_ID", "one", "MONGODB_COLLECTION", "{topic}", "KAFKA_SESSION_TIMEOUT", "20s")
	both := s.start("KAFKA_TOPICS", s.topic+","+removed.topic)
	s.awaitAssigned(4, both)
	both.Kill()
	if err := s.send(within(t, 20*time.Second), s.generator(20), 200); err != nil {
		t.Fatal(err)
	}
	one := s.start()
	s.awaitCommitted(one, time.Minute)
	s.awaitAssigned(2, one)
	if strings.Count(one.Log(), "not in KAFKA_TOPICS") != 1 {
		t.Errorf("the log does not say once that partitions are ignored:\n%s", one.Log())
	}
	s.terminate(one)
}
