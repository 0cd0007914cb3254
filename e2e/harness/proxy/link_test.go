package proxy_test

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"waterwheel/e2e/harness/proxy"
)

// echo starts a server that sends every byte back, and returns its address.
func echo(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			go io.Copy(c, c)
		}
	}()
	return listener.Addr().String()
}

func newLink(t *testing.T, target string) *proxy.Link {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	listener.Close()
	l, err := proxy.NewLink(address, target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l
}

func dial(t *testing.T, l *proxy.Link) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", l.Address())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// ask sends a byte and waits for its answer.
func ask(t *testing.T, c net.Conn, patience time.Duration) error {
	t.Helper()
	c.SetDeadline(time.Now().Add(patience))
	if _, err := c.Write([]byte{'x'}); err != nil {
		return err
	}
	_, err := io.ReadFull(c, make([]byte, 1))
	return err
}

func TestPassesAndDelays(t *testing.T) {
	l := newLink(t, echo(t))
	c := dial(t, l)
	if err := ask(t, c, 5*time.Second); err != nil {
		t.Fatal(err)
	}
	l.Delay(50 * time.Millisecond)
	start := time.Now()
	if err := ask(t, c, 5*time.Second); err != nil || time.Since(start) < 100*time.Millisecond {
		t.Errorf("answered after %v: %v", time.Since(start), err)
	}
}

func TestHoldsAndDelivers(t *testing.T) {
	l := newLink(t, echo(t))
	c := dial(t, l)
	l.Hold()
	if err := ask(t, c, 100*time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("while held: %v", err)
	}
	dial(t, l) // a new connection is accepted
	if err := l.Restore(); err != nil {
		t.Fatal(err)
	}
	c.SetDeadline(time.Now().Add(5 * time.Second))
	if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
		t.Errorf("what was held: %v", err)
	}
}

func TestLosesAnswers(t *testing.T) {
	l := newLink(t, echo(t))
	c := dial(t, l)
	l.LoseAnswers()
	if err := ask(t, c, 100*time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("an answer came: %v", err)
	}
}

func TestCutsAndRefuses(t *testing.T) {
	l := newLink(t, echo(t))
	c := dial(t, l)
	if err := ask(t, c, 5*time.Second); err != nil {
		t.Fatal(err)
	}
	l.Cut()
	if err := ask(t, c, 5*time.Second); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("after the cut: %v", err)
	}
	if err := ask(t, dial(t, l), 5*time.Second); err != nil {
		t.Errorf("a new connection: %v", err)
	}
	l.Refuse()
	if _, err := net.Dial("tcp", l.Address()); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("while refused: %v", err)
	}
	if err := l.Restore(); err != nil {
		t.Fatal(err)
	}
	if err := ask(t, dial(t, l), 5*time.Second); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

func TestChokesWhatIsLarge(t *testing.T) {
	l := newLink(t, echo(t))
	c := dial(t, l)
	l.Choke(10)
	for range 10 {
		if err := ask(t, c, 5*time.Second); err != nil {
			t.Fatal(err)
		}
	}
	if err := ask(t, c, 100*time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("behind that: %v", err)
	}
	if err := ask(t, dial(t, l), 5*time.Second); err != nil {
		t.Errorf("another connection: %v", err)
	}
	if err := l.Restore(); err != nil {
		t.Fatal(err)
	}
	c.SetDeadline(time.Now().Add(5 * time.Second))
	if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
		t.Errorf("what was held: %v", err)
	}
}
