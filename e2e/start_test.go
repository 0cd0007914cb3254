package e2e_test

import (
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"waterwheel/e2e/harness"
	"waterwheel/e2e/harness/proxy"
)

// TestStartOrderDoesNotMatter checks a consumer that starts before its servers. It says what it waits for, stays alive, and works
// once they are up, one after the other.
func TestStartOrderDoesNotMatter(t *testing.T) {
	t.Parallel()
	s := newStream(t, 2)
	mongo, uri := world.servers.LinkMongo(t)
	mongo.Refuse()
	brokers, kafka := laterKafka(t)
	s.sendReadings(300)
	c := s.start("KAFKA_BROKERS", brokers, "MONGODB_URI", uri, "LOG_FORMAT", "text")
	refused := "connection refused"
	s.awaitNotReady(c, "waiting for Kafka ("+brokers+") since ", refused, "waiting for MongoDB ("+hostOf(t, uri)+") since ")
	if status, body, err := c.Get(t.Context(), "/healthz"); err != nil || status != http.StatusOK {
		t.Errorf("a consumer that waits is said to be dead: %d %s %v", status, body, err)
	}
	kafka()
	s.awaitLine(c, "Kafka answers")
	s.awaitNotReady(c, "waiting for MongoDB ("+hostOf(t, uri)+") since ", refused)
	if _, body, _ := c.Get(t.Context(), "/readyz"); strings.Contains(body, "waiting for Kafka") {
		t.Errorf("Kafka answers, and is waited for: %s", body)
	}
	if err := mongo.Restore(); err != nil {
		t.Fatal(err)
	}
	s.awaitCommitted(c, time.Minute)
	log := c.Log()
	for line, want := range map[string]int{`msg="waiting for Kafka"`: 1, `msg="waiting for MongoDB"`: 1, `msg="Kafka answers"`: 1, `msg="MongoDB answers"`: 1} {
		if n := strings.Count(log, line); n != want {
			t.Errorf("the log has %s %d times, want %d", line, n, want)
		}
	}
	if t.Failed() {
		t.Log(log)
	}
	s.terminate(c)
	s.verify(t, 300)
}

// TestAStopWhileWaiting checks that the process ends with code 0.
func TestAStopWhileWaiting(t *testing.T) {
	t.Parallel()
	s := newStream(t, 1)
	brokers, _ := laterKafka(t)
	c := s.start("KAFKA_BROKERS", brokers)
	s.awaitNotReady(c, "waiting for Kafka")
	begin := time.Now()
	if code, err := c.Terminate(within(t, 20*time.Second)); err != nil || code != 0 || time.Since(begin) > 5*time.Second {
		t.Errorf("code %d (%v) after %v\n%s", code, err, time.Since(begin), c.Log())
	}
}

// TestStartTimeoutEndsTheWait checks that the message names the server, the reason and the remedy.
func TestStartTimeoutEndsTheWait(t *testing.T) {
	t.Parallel()
	s := newStream(t, 1)
	mongo, uri := world.servers.LinkMongo(t)
	brokers, _ := laterKafka(t)
	hanging := hangingUp(t)
	for name, test := range map[string]struct {
		with  []string
		words []string
	}{
		"no Kafka":   {[]string{"KAFKA_BROKERS", brokers}, []string{"for Kafka at " + brokers, "connection refused", "KAFKA_BROKERS"}},
		"no MongoDB": {[]string{"MONGODB_URI", uri}, []string{"for MongoDB at " + hostOf(t, uri), "connection refused", "MONGODB_URI"}},
		"no answer":  {[]string{"MONGODB_URI", uri}, []string{"for MongoDB at " + hostOf(t, uri), "does not answer"}},
		// This is like a load balancer in front of a server that is down. The message hints that TLS may be required.
		"Kafka hangs up":   {[]string{"KAFKA_BROKERS", hanging}, []string{"for Kafka at " + hanging, "closes the connection immediately", "requires TLS"}},
		"MongoDB hangs up": {[]string{"MONGODB_URI", "mongodb://" + hanging + "/"}, []string{"for MongoDB at " + hanging, "closes the connection immediately", "requires TLS"}},
	} {
		t.Run(name, func(t *testing.T) {
			mongo.Refuse()
			if name == "no answer" {
				if err := mongo.Restore(); err != nil {
					t.Fatal(err)
				}
				mongo.Hold()
			}
			begin := time.Now()
			c := s.launch(append(test.with, "START_TIMEOUT", "2s")...)
			code, err := c.Wait(within(t, 30*time.Second))
			if err != nil || code != 1 || time.Since(begin) < 2*time.Second {
				t.Errorf("code %d (%v) after %v", code, err, time.Since(begin))
			}
			last := c.Log()[strings.LastIndex(strings.TrimSpace(c.Log()), "\n")+1:]
			for _, word := range append(test.words, "level=ERROR", "START_TIMEOUT") {
				if !strings.Contains(last, word) {
					t.Errorf("%q is not in the last line of\n%s", word, c.Log())
				}
			}
			if !regexp.MustCompile(`err="waited (1\.[5-9]|2|2\.\d)s for `).MatchString(last) { // since the first try
				t.Errorf("the last line does not say how long it waited:\n%s", last)
			}
		})
	}
}

// TestMistakesAreNotWaitedFor checks this even if another server is down.
func TestMistakesAreNotWaitedFor(t *testing.T) {
	t.Parallel()
	s := newStream(t, 1)
	_, uri := world.servers.LinkMongo(t)
	brokers, _ := laterKafka(t)
	for name, with := range map[string][]string{
		"no such topic": {"KAFKA_TOPICS", "no-such-topic", "MONGODB_URI", closed(uri)},
		"a set of another name": {
			"KAFKA_BROKERS", brokers, "MONGODB_URI",
			strings.Replace(uri, "directConnection=true", "replicaSet=no-such-set&serverSelectionTimeoutMS=2000", 1),
		},
	} {
		c := s.launch(with...)
		if code, err := c.Wait(within(t, 30*time.Second)); err != nil || code != 1 || strings.Contains(c.Log(), "waited ") {
			t.Errorf("%s: code %d (%v)\n%s", name, code, err, c.Log())
		}
	}
}

// laterKafka returns an address at which the Kafka of this run becomes reachable when begin is called. Kafka's advertised address
// works from then on.
func laterKafka(t *testing.T) (address string, begin func()) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address = listener.Addr().String()
	listener.Close()
	l, err := proxy.NewLink(address, strings.Split(world.servers.Brokers, ",")[0])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	l.Refuse()
	return address, func() {
		if err := l.Restore(); err != nil {
			t.Error(err)
		}
	}
}

// hangingUp returns an address that accepts each connection and closes it at once.
func hangingUp(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	t.Cleanup(func() { listener.Close(); <-ended })
	go func() {
		defer close(ended)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			conn.Close()
		}
	}()
	return listener.Addr().String()
}

// closed returns a MongoDB's URI with a port on which no server listens.
func closed(uri string) string {
	parsed, _ := url.Parse(uri)
	parsed.Host = "127.0.0.1:1"
	return parsed.String()
}

func hostOf(t *testing.T, uri string) string {
	t.Helper()
	parsed, err := url.Parse(uri)
	if err != nil {
		t.Fatal(err)
	}
	return parsed.Host
}

// launch starts a consumer that may end at once.
func (s *stream) launch(pairs ...string) *harness.Consumer {
	s.t.Helper()
	c, err := harness.Start(world.binary, s.settings.With(pairs...))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(c.Kill)
	return c
}

// awaitLine waits until the log contains the text.
func (s *stream) awaitLine(c *harness.Consumer, text string) {
	s.t.Helper()
	for ctx := within(s.t, 30*time.Second); !strings.Contains(c.Log(), text); time.Sleep(50 * time.Millisecond) {
		if ctx.Err() != nil || !c.Running() {
			s.t.Fatalf("%q is not in the log\n%s", text, c.Log())
		}
	}
}
