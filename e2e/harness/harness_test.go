package harness_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"waterwheel/e2e/harness"
)

// TestMain acts as the program under test if CHILD is set. CHILD holds its behaviour.
func TestMain(m *testing.M) {
	if behaviour := os.Getenv("CHILD"); behaviour != "" {
		os.Exit(child(behaviour))
	}
	os.Exit(m.Run())
}

// child serves HTTP as the consumer does, and ends on SIGTERM, unless its behaviour says otherwise.
func child(behaviour string) int {
	fmt.Println("variables:", strings.Join(os.Environ(), " "))
	if behaviour == "fails" {
		return 3
	}
	term := make(chan os.Signal, 1)
	signal.Notify(term, syscall.SIGTERM)
	begin := time.Now()
	http.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		if time.Since(begin) < 200*time.Millisecond {
			http.Error(w, "joining", http.StatusServiceUnavailable)
		}
	})
	http.HandleFunc("/metrics", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "# TYPE c counter\nc{a=\"x\",b=\"1\"} 2\nc{a=\"x\",b=\"2\"} 3\nc{a=\"y\",b=\"1\"} 5\n# TYPE g gauge\ng 7\n")
	})
	go http.ListenAndServe(os.Getenv("HTTP_ADDR"), nil)
	<-term
	if behaviour == "hangs" {
		select {}
	}
	return 0
}

func start(t *testing.T, behaviour string) *harness.Consumer {
	t.Helper()
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c, err := harness.Start(binary, harness.Settings{"CHILD": behaviour, "COMMIT_INTERVAL": "1s"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Kill)
	return c
}

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func TestLifeOfAProcess(t *testing.T) {
	t.Setenv("KAFKA_BROKERS", "of the person who runs the tests")
	c := start(t, "serves")
	if err := c.AwaitReady(within(t, 10*time.Second)); err != nil {
		t.Fatal(err)
	}
	m, err := c.Metrics(within(t, 5*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	if all, some, none := m.Sum("c"), m.Sum("c", "a", "x"), m.Sum("absent"); all != 10 || some != 5 || none != 0 || m.Sum("g") != 7 {
		t.Errorf("sums %v, %v, %v and %v, want 10, 5, 0 and 7", all, some, none, m.Sum("g"))
	}
	if log := c.Log(); !strings.Contains(log, "COMMIT_INTERVAL=1s") || strings.Contains(log, "KAFKA_BROKERS") {
		t.Errorf("the environment is not the settings': %s", log)
	}
	if code, err := c.Terminate(within(t, 10*time.Second)); err != nil || code != 0 {
		t.Errorf("ended with code %d: %v", code, err)
	}
}

func TestProcessThatFails(t *testing.T) {
	c := start(t, "fails")
	if err := c.AwaitReady(within(t, 10*time.Second)); err == nil || !strings.Contains(err.Error(), "code 3") {
		t.Errorf("waiting for it: %v", err)
	}
	if code, err := c.Wait(within(t, 10*time.Second)); err != nil || code != 3 {
		t.Errorf("ended with code %d: %v", code, err)
	}
}

func TestProcessThatHangsIsKilled(t *testing.T) {
	c := start(t, "hangs")
	if err := c.AwaitReady(within(t, 10*time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Terminate(within(t, 300*time.Millisecond)); err == nil || c.Running() {
		t.Errorf("it hangs: running %v, %v", c.Running(), err)
	}
}
