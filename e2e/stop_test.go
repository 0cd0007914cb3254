package e2e_test

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"waterwheel/e2e/harness/proxy"
)

// absent are ways in which a server is unreachable.
var absent = map[string]func(*proxy.Link){
	"nobody listens":     (*proxy.Link).Refuse,
	"nothing comes back": (*proxy.Link).Hold,
}

// TestStopWhileTheDatabaseIsAway checks that a consumer that cannot write still ends in time, and says what will be read again.
// It has left the group by then, so that another one gets its partitions without waiting for the session timeout.
func TestStopWhileTheDatabaseIsAway(t *testing.T) {
	const timeout = 8 * time.Second
	for name, leave := range absent {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStream(t, 4)
			database, uri := world.servers.LinkMongo(t)
			ends := s.start("MONGODB_URI", uri, "SHUTDOWN_TIMEOUT", timeout.String(), "KAFKA_SESSION_TIMEOUT", "30s", "LOG_FORMAT", "json")
			stays := s.start("KAFKA_SESSION_TIMEOUT", "30s")
			s.awaitAssigned(2, ends, stays)
			s.sendReadings(40)
			s.awaitCommitted(ends, time.Minute)
			leave(database)
			s.sendReadings(40)
			s.awaitNoLag(stays)
			asked := time.Now()
			s.signal(ends, syscall.SIGTERM)
			code, err := ends.Wait(within(t, 2*timeout))
			took := time.Since(asked)
			if err != nil || code != 0 || took > timeout {
				t.Errorf("ended with %d, %v after %v", code, err, took)
			}
			if line := lastLine(ends, "stopped before all records were stored and committed"); !strings.Contains(line, s.topic+"/") {
				t.Errorf("the last words are\n%s", ends.Log())
			}
			s.awaitAssigned(4, stays)
			t.Logf("it ended after %.1fs, the other has its partitions after %.1fs", took.Seconds(), time.Since(asked).Seconds())
			if handed := time.Since(asked); handed > timeout+5*time.Second {
				t.Errorf("the other one has the partitions after %v: it waited for the session", handed)
			}
			s.awaitCommitted(stays, time.Minute)
			s.terminate(stays)
			s.check()
		})
	}
}

// TestStopWithNothingToWriteWhileTheDatabaseIsAway checks a stop in which only the claims cannot be released.
func TestStopWithNothingToWriteWhileTheDatabaseIsAway(t *testing.T) {
	t.Parallel()
	s := newStream(t, 2)
	database, uri := world.servers.LinkMongo(t)
	c := s.start("MONGODB_URI", uri, "SHUTDOWN_TIMEOUT", "8s", "LOG_FORMAT", "json")
	s.sendReadings(20)
	s.awaitCommitted(c, time.Minute)
	database.Hold()
	asked := time.Now()
	s.signal(c, syscall.SIGTERM)
	code, err := c.Wait(within(t, 20*time.Second))
	took := time.Since(asked)
	t.Logf("it ended after %.1fs", took.Seconds())
	if err != nil || code != 0 || took > 8*time.Second {
		t.Errorf("ended with %d, %v after %v", code, err, took)
	}
	if line := lastLine(c, "stopped before every partition was released"); !strings.Contains(line, s.topic+"/0, "+s.topic+"/1") {
		t.Errorf("the last words are\n%s", c.Log())
	}
	next := s.start()
	s.sendReadings(20)
	s.awaitCommitted(next, time.Minute)
	s.terminate(next)
	s.check()
}
