package chaos

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"waterwheel/e2e/harness"
	"waterwheel/e2e/harness/proxy"
)

// member is a slot in the group. It has its own links to the brokers and the database, and at most one process that uses them.
type member struct {
	run      *run
	slot     int
	kafka    []*proxy.Link
	database []*proxy.Link
	settings harness.Settings

	// busy is held by the disturbance that works on this member. It guards the fields below.
	busy      sync.Mutex
	consumer  *harness.Consumer
	processes int
}

// newMember returns a member without a process.
func (r *run) newMember(slot int) (*member, error) {
	database, uri, err := r.servers.NewMongoLink()
	if err != nil {
		return nil, err
	}
	return &member{
		run: r, slot: slot, kafka: r.cluster.Links(slot), database: []*proxy.Link{database},
		settings: r.settings.With("KAFKA_BROKERS", r.cluster.LinkedAddress(slot), "MONGODB_URI", uri),
	}, nil
}

// start starts a process if there is none.
func (m *member) start() error {
	if m.consumer != nil {
		return nil
	}
	consumer, err := harness.Start(m.run.options.Binary, m.settings)
	if err != nil {
		return err
	}
	m.consumer = consumer
	m.processes++
	return nil
}

// restart is start during the disturbances, where an error is a fault.
func (m *member) restart() {
	if err := m.start(); err != nil {
		m.run.fault("%v", err)
	}
}

// kill kills the process with SIGKILL.
func (m *member) kill() {
	if m.consumer != nil {
		m.consumer.Kill()
		m.forget()
	}
}

// signal sends a signal. If the process has ended by itself, watch notices it.
func (m *member) signal(s syscall.Signal) {
	if err := m.consumer.Signal(s); err != nil {
		m.run.note("consumer %d: %v", m.slot, err)
	}
}

// terminate ends the process with SIGTERM. A process that does not end, or ends with a code other than 0, is a fault.
func (m *member) terminate(ctx context.Context) {
	if m.consumer == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 25*time.Second)
	defer cancel()
	code, err := m.consumer.Terminate(ctx)
	log := m.consumer.Log()
	started := strings.Contains(log, "msg=starting") // before that line SIGTERM simply kills the process
	switch path := m.forget(); {
	case err == nil && couldNotStart(code, log):
		m.run.note("consumer %d could not start", m.slot)
	case err != nil || code != 0 && started:
		m.run.fault("consumer %d ended with code %d after SIGTERM (%v), its log is %s", m.slot, code, err != nil, path)
	}
}

// couldNotStart reports whether a process ended because it could not reach its servers at the start, which is no fault.
func couldNotStart(code int, log string) bool {
	return code == 1 && !strings.Contains(log, "a generation begins")
}

// watch notes that the process ended by itself, and starts another one, as a supervisor would.
func (m *member) watch() {
	if m.consumer == nil || m.consumer.Running() {
		return
	}
	code, _ := m.consumer.Wait(context.Background())
	log := strings.TrimSpace(m.consumer.Log())
	last := lastLine(log)
	if path := m.forget(); couldNotStart(code, log) {
		m.run.note("consumer %d could not start: %s", m.slot, last)
	} else {
		m.run.fault("consumer %d ended by itself with code %d (%s), its log is %s", m.slot, code, last, path)
	}
	m.restart()
}

// forget writes the log of an ended process to a file, and returns the path of the file.
func (m *member) forget() string {
	path := filepath.Join(m.run.options.Dir, fmt.Sprintf("consumer-%d-%d.log", m.slot, m.processes))
	if err := os.WriteFile(path, []byte(m.consumer.Log()), 0o600); err != nil {
		m.run.note("keeping a log: %v", err)
	}
	m.consumer = nil
	return path
}

func (m *member) close() {
	m.kill()
	for _, l := range m.database {
		l.Close()
	}
}

// stopAll terminates all members at the same time.
func (r *run) stopAll(ctx context.Context) {
	var all sync.WaitGroup
	for _, m := range r.members {
		all.Go(func() {
			m.busy.Lock()
			defer m.busy.Unlock()
			m.terminate(ctx)
		})
	}
	all.Wait()
}
