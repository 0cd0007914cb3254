package discard

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
)

// variable is set in a copy of the running program that must be the proxy. It holds the address of the server.
const variable = "WATERWHEEL_DISCARD_TO"

// Main must be called first by each program that calls Start, because Start runs the program again. In that copy Main runs the
// proxy until the parent has ended, and does not return.
func Main() {
	target := os.Getenv(variable)
	if target == "" {
		return
	}
	if err := serve(target, os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// serve prints the proxy's address, and then the counts for each line of input.
func serve(target string, in io.Reader, out io.Writer) error {
	p, err := New(target)
	if err != nil {
		return err
	}
	defer p.Close()
	if _, err := fmt.Fprintln(out, p.Address()); err != nil {
		return fmt.Errorf("saying where the proxy listens: %w", err)
	}
	for lines := bufio.NewScanner(in); lines.Scan(); {
		if err := json.NewEncoder(out).Encode(p.Counts()); err != nil {
			return fmt.Errorf("saying what was counted: %w", err)
		}
	}
	return nil
}

// Process is a proxy in a process of its own.
type Process struct {
	// URI is MongoDB's URI through the proxy.
	URI string

	command *exec.Cmd
	mu      sync.Mutex // guards in and out
	in      io.WriteCloser
	out     *bufio.Reader
}

// Start starts a proxy in front of the MongoDB at uri. The proxy is a process of its own, so that its processor time is not
// counted with another's. The program must begin with Main. The caller stops the proxy.
func Start(ctx context.Context, uri string) (*Process, error) {
	target, err := primary(ctx, uri)
	if err != nil {
		return nil, err
	}
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("looking for this program's file: %w", err)
	}
	p := &Process{command: exec.Command(program)}
	p.command.Env = append(os.Environ(), variable+"="+target)
	p.command.Stderr = os.Stderr
	if p.in, err = p.command.StdinPipe(); err != nil {
		return nil, fmt.Errorf("starting the proxy: %w", err)
	}
	out, err := p.command.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("starting the proxy: %w", err)
	}
	if err := p.command.Start(); err != nil {
		return nil, fmt.Errorf("starting the proxy: %w", err)
	}
	p.out = bufio.NewReader(out)
	address, err := p.out.ReadString('\n')
	if err != nil {
		return nil, errors.Join(fmt.Errorf("waiting for the proxy's address: %w", err), p.Stop())
	}
	p.URI = through(uri, address[:len(address)-1])
	return p, nil
}

// Counts returns the counts so far.
func (p *Process) Counts() (Counts, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var c Counts
	if _, err := fmt.Fprintln(p.in); err != nil {
		return c, fmt.Errorf("asking the proxy for its counts: %w", err)
	}
	line, err := p.out.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &c)
	}
	if err != nil {
		return c, fmt.Errorf("reading the proxy's counts: %w", err)
	}
	return c, nil
}

// Stop closes all connections through the proxy, and waits for the end of its process.
func (p *Process) Stop() error {
	p.in.Close()
	if err := p.command.Wait(); err != nil {
		return fmt.Errorf("stopping the proxy: %w", err)
	}
	return nil
}
