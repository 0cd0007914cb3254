package harness

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
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

// Start starts the program with the given settings and arguments. Its HTTP endpoints listen on a free port. The caller ends it
// with Terminate or Kill.
func Start(binary string, settings Settings, args ...string) (*Consumer, error) {
	address, err := NewLinkAddress()
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

// attend starts the process and waits for its end on one thread, because the kernel kills the process when this thread ends.
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

// Address returns the host and port of the process's HTTP endpoints.
func (c *Consumer) Address() string { return c.address }

// PID returns the process's id.
func (c *Consumer) PID() int { return c.command.Process.Pid }

// Log returns the output of the process, or only its end if the output is long.
func (c *Consumer) Log() string { return c.log.String() }

// Ended returns a channel that is closed when the process has ended.
func (c *Consumer) Ended() <-chan struct{} { return c.ended }

// Running reports whether the process still runs.
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

// Terminate sends SIGTERM to the process and returns its exit code. It kills a process that has not ended by the context's
// deadline, and returns an error then.
func (c *Consumer) Terminate(ctx context.Context) (int, error) {
	if err := c.Signal(syscall.SIGTERM); err != nil && c.Running() {
		return 0, fmt.Errorf("sending SIGTERM: %w", err)
	}
	return c.Wait(ctx)
}

// Wait waits for the end of the process and returns its exit code. It kills a process that has not ended by the context's
// deadline, and returns an error then.
func (c *Consumer) Wait(ctx context.Context) (int, error) {
	select {
	case <-c.ended:
		return c.command.ProcessState.ExitCode(), nil
	case <-ctx.Done():
		c.Kill()
		return 0, errors.Join(errors.New("the process did not end in time:\n"+c.Log()), ctx.Err())
	}
}

// CPU waits for the end of the process, and returns the processor time that it used in user and system mode.
func (c *Consumer) CPU() time.Duration {
	<-c.ended
	return c.command.ProcessState.UserTime() + c.command.ProcessState.SystemTime()
}

// tailBytes is the number of bytes of a process's output that are kept at least.
const tailBytes = 1 << 20

// tail keeps the end of the data written to it. Its methods may be called by several goroutines.
type tail struct {
	mu    sync.Mutex
	bytes []byte
}

// Write appends p, and drops the oldest bytes when there are more than twice tailBytes.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.bytes = append(t.bytes, p...)
	if over := len(t.bytes) - tailBytes; over > tailBytes {
		t.bytes = append([]byte(nil), t.bytes[over:]...)
	}
	return len(p), nil
}

// String returns the kept bytes.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.bytes)
}

// Build builds the program cmd/consumer of the parent module into dir, and returns the path of the binary. race builds it with
// the race detector, which needs a C compiler.
func Build(ctx context.Context, dir string, race bool) (string, error) {
	root, err := moduleRoot(ctx)
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "consumer")
	args := []string{"build", "-o", path}
	if race {
		args = append(args, "-race")
	}
	command := exec.CommandContext(ctx, "go", append(args, "./cmd/consumer")...)
	command.Dir = root // the program's go.mod selects the versions, not the one of this module
	command.Env = append(os.Environ(), "GOWORK=off")
	if output, err := command.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building cmd/consumer: %w\n%s", err, output)
	}
	return path, nil
}

// moduleRoot returns the folder of the module waterwheel, which go.mod of this module names.
func moduleRoot(ctx context.Context) (string, error) {
	output, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "waterwheel").Output()
	if err != nil {
		return "", fmt.Errorf("asking go for the folder of the program (run this inside e2e/): %w", err)
	}
	return strings.TrimSpace(string(output)), nil
}
