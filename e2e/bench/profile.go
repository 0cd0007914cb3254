package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"waterwheel/e2e/harness"
)

// profileWindow is the duration of one profile. It is short, because the consumer's duration is unknown and an interrupted
// profile is lost.
const profileWindow = 2 * time.Second

// profiler takes processor profiles of a running consumer, one after the other.
type profiler struct {
	prefix  string // prefix of the files' paths
	address string
	files   []string
	err     error
	quit    chan struct{}
	done    chan struct{}
}

// startProfiler starts to take profiles from the process with the given address. It returns nil if no profiles are wanted.
func (b *Bench) startProfiler(d Drain, address string) *profiler {
	if b.Profiles == "" {
		return nil
	}
	p := &profiler{
		prefix:  filepath.Join(b.Profiles, fmt.Sprintf("%s-%d", d.Peer, d.Round)),
		address: address, quit: make(chan struct{}), done: make(chan struct{}),
	}
	go p.run()
	return p
}

// profiled returns the settings with an address for profiles, if profiles are wanted.
func (b *Bench) profiled(s harness.Settings) (harness.Settings, error) {
	if b.Profiles == "" {
		return s, nil
	}
	if err := os.MkdirAll(b.Profiles, 0o750); err != nil {
		return nil, fmt.Errorf("making a folder for profiles: %w", err)
	}
	address, err := harness.NewLinkAddress()
	return s.With("PPROF_ADDR", address), err
}

func (p *profiler) run() {
	defer close(p.done)
	for p.err == nil {
		name := fmt.Sprintf("%s-%03d.part", p.prefix, len(p.files))
		if p.err = p.take(name); p.err == nil {
			p.files = append(p.files, name)
		}
		select {
		case <-p.quit:
			return
		default:
		}
	}
}

// take writes the profile of one window to a file.
func (p *profiler) take(name string) error {
	ctx, cancel := context.WithTimeout(context.Background(), profileWindow+20*time.Second)
	defer cancel()
	url := fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", p.address, int(profileWindow.Seconds()))
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return fmt.Errorf("taking a profile: %w", err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("taking a profile: %w", err)
	}
	defer response.Body.Close()
	profile, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", response.Status, profile)
	}
	if err == nil {
		err = os.WriteFile(name, profile, 0o600)
	}
	if err != nil {
		return fmt.Errorf("taking a profile: %w", err)
	}
	return nil
}

// stop waits for the last window and merges all profiles into one file. It does nothing if p is nil.
func (p *profiler) stop(ctx context.Context) error {
	if p == nil {
		return nil
	}
	close(p.quit)
	<-p.done
	if len(p.files) == 0 {
		return p.err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanPatience) // also after a turn that took too long
	defer cancel()
	merge := exec.CommandContext(ctx, "go", append([]string{"tool", "pprof", "-proto", "-output", p.prefix + ".pprof"}, p.files...)...)
	if output, err := merge.CombinedOutput(); err != nil {
		return errors.Join(p.err, fmt.Errorf("making one profile of %d: %w\n%s", len(p.files), err, output))
	}
	for _, name := range p.files {
		os.Remove(name)
	}
	return p.err
}
