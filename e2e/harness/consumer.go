package harness

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// Consumer is one running process of the program.
type Consumer struct {
	command *exec.Cmd
	address string
	log     *tail
	ended   chan struct{} // closed when the process has ended
}

// Start starts the program with the given settings and arguments; its HTTP endpoints listen on a free port. The caller
// ends it with Terminate or Kill.
func Start(binary string, settings Settings, args ...string) (*Consumer, error) {
	address, err := freeAddress()
	if err != nil {
		return nil, err
	}
	c := &Consumer{
		command: exec.Command(binary, args...),
		address: address,
		log:     &tail{},
		ended:   make(chan struct{}),
	}
	c.command.Env = settings.With("HTTP_ADDR", address).environ()
	c.command.Stdout, c.command.Stderr = c.log, c.log
	c.command.SysProcAttr = childAttributes()
	started := make(chan error)
	go c.attend(started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("starting %s: %w", binary, err)
	}
	return c, nil
}

// attend starts the process and waits for its end, all on one thread: the kernel ties the process to it.
func (c *Consumer) attend(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := c.command.Start()
	started <- err
	if err != nil {
		return
	}
	_ = c.command.Wait() // the exit code is in ProcessState
	close(c.ended)
}

// freeAddress is an address of the loopback interface that nobody listens on.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("looking for a free port: %w", err)
	}
	defer l.Close()
	return l.Addr().String(), nil
}

// Address is where the process serves HTTP, host and port.
func (c *Consumer) Address() string { return c.address }

// PID is the process's id.
func (c *Consumer) PID() int { return c.command.Process.Pid }

// Log is what the process printed, its end when it printed much.
func (c *Consumer) Log() string { return c.log.String() }

// Ended is closed when the process has ended.
func (c *Consumer) Ended() <-chan struct{} { return c.ended }

// Running reports whether the process has not ended.
func (c *Consumer) Running() bool {
	select {
	case <-c.ended:
		return false
	default:
		return true
	}
}

// AwaitReady waits until /readyz answers 200.
func (c *Consumer) AwaitReady(ctx context.Context) error {
	last := "no answer"
	for {
		status, body, err := c.Get(ctx, "/readyz")
		switch {
		case err == nil && status == http.StatusOK:
			return nil
		case err == nil:
			last = fmt.Sprintf("%d %s", status, strings.TrimSpace(body))
		}
		select {
		case <-c.ended:
			return fmt.Errorf("waiting for /readyz: the process ended with code %d\n%s", c.command.ProcessState.ExitCode(), c.Log())
		case <-ctx.Done():
			return fmt.Errorf("waiting for /readyz (%s): %w\n%s", last, ctx.Err(), c.Log())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// Signal sends a signal to the process.
func (c *Consumer) Signal(s syscall.Signal) error { return c.command.Process.Signal(s) }

// Kill ends the process with SIGKILL and waits for its end.
func (c *Consumer) Kill() {
	if c.Running() {
		c.command.Process.Kill()
	}
	<-c.ended
}

// Terminate asks the process to end with SIGTERM and returns its exit code. When it has not ended by the context's
// deadline it is killed, which is an error.
func (c *Consumer) Terminate(ctx context.Context) (int, error) {
	if err := c.Signal(syscall.SIGTERM); err != nil && c.Running() {
		return 0, fmt.Errorf("sending SIGTERM: %w", err)
	}
	return c.Wait(ctx)
}

// Wait waits for the process's end and returns its exit code. When it has not ended by the context's deadline it is
// killed, which is an error.
func (c *Consumer) Wait(ctx context.Context) (int, error) {
	select {
	case <-c.ended:
		return c.command.ProcessState.ExitCode(), nil
	case <-ctx.Done():
		c.Kill()
		return 0, errors.Join(errors.New("the process did not end in time:\n"+c.Log()), ctx.Err())
	}
}

// CPU is the processor time, user and system, that the process has used, once it has ended.
func (c *Consumer) CPU() time.Duration {
	<-c.ended
	return c.command.ProcessState.UserTime() + c.command.ProcessState.SystemTime()
}
