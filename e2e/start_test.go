package e2e_test

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"waterwheel/e2e/harness/link"
)

// absent are ways in which a server is not there yet.
var absent = map[string]func(*link.Link){
	"nobody listens":     (*link.Link).Refuse,
	"nothing comes back": (*link.Link).Hold,
}

// TestStartOrderDoesNotMatter: a consumer that is there before its servers says for which it waits, and then works.
func TestStartOrderDoesNotMatter(t *testing.T) {
	for name, leave := range absent {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStream(t, 2)
			brokers := world.servers.LinkKafka(t)
			database, uri := world.servers.LinkMongo(t)
			leave(brokers)
			leave(database)
			c := s.start("KAFKA_BROKERS", brokers.Address(), "MONGODB_URI", patient(uri), "LOG_FORMAT", "json")
			s.sendReadings(20)
			s.awaitNotReady(c, "waiting for Kafka since", brokers.Address())
			restore(t, brokers)
			s.awaitNotReady(c, "waiting for MongoDB since", database.Address())
			restore(t, database)
			s.awaitCommitted(c, time.Minute)
			for _, server := range []string{"Kafka", "MongoDB"} {
				if n := strings.Count(c.Log(), `"msg":"waiting for `+server+`"`); n != 1 {
					t.Errorf("%d lines say that %s is waited for", n, server)
				}
				if lastLine(c, `"msg":"`+server+` answers"`) == "" {
					t.Errorf("no line says that %s answers", server)
				}
			}
			s.terminate(c)
			s.check()
		})
	}
}

// patient is a URI by which the driver looks for a server for a second at a time.
func patient(uri string) string { return uri + "&serverSelectionTimeoutMS=1000" }

func restore(t *testing.T, l *link.Link) {
	t.Helper()
	if err := l.Restore(); err != nil {
		t.Fatal(err)
	}
}

// TestStartThatWaitsCanBeEnded, by SIGTERM as by START_TIMEOUT.
func TestStartThatWaitsCanBeEnded(t *testing.T) {
	t.Parallel()
	s := newStream(t, 1)
	database, uri := world.servers.LinkMongo(t)
	for name, leave := range absent {
		leave(database)
		c := s.start("MONGODB_URI", uri)
		s.awaitNotReady(c, "MongoDB")
		asked := time.Now()
		s.signal(c, syscall.SIGTERM)
		if code, err := c.Wait(within(t, 10*time.Second)); err != nil || code != 0 || time.Since(asked) > 5*time.Second {
			t.Errorf("%s: ended with %d, %v after %v", name, code, err, time.Since(asked))
		}

		began := time.Now()
		c = s.start("MONGODB_URI", uri, "START_TIMEOUT", "2s")
		code, err := c.Wait(within(t, 20*time.Second))
		if err != nil || code != 1 || time.Since(began) > 10*time.Second {
			t.Errorf("%s: ended with %d, %v after %v", name, code, err, time.Since(began))
		}
		if line := lastLine(c, "waited for MongoDB for 2s (START_TIMEOUT is 2s)"); !strings.Contains(line, database.Address()) {
			t.Errorf("%s: the last words are\n%s", name, c.Log())
		}
		restore(t, database)
	}
}
