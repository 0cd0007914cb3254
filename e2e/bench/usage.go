package bench

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	psnet "github.com/shirou/gopsutil/v4/net"
	"github.com/shirou/gopsutil/v4/process"
)

// OwnCPU returns the processor time of this process, in user and system mode.
func OwnCPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0 // fails only with wrong arguments
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// CPUOf returns the processor time of another process, in steps of the system's clock (10 ms on Linux). It returns false if the
// time is unknown.
func CPUOf(ctx context.Context, pid int32) (time.Duration, bool) {
	if pid == 0 {
		return 0, false
	}
	p, err := process.NewProcessWithContext(ctx, pid)
	if err != nil {
		return 0, false
	}
	times, err := p.TimesWithContext(ctx)
	if err != nil {
		return 0, false
	}
	return time.Duration((times.User + times.System) * float64(time.Second)), true
}

// MaxResidentOf returns the maximum resident memory of a process in bytes. Zero means unknown. It does not use the rusage of a
// child, which begins with the value of its parent.
func MaxResidentOf(pid int) int64 {
	file, err := os.Open(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		words := strings.Fields(lines.Text())
		if len(words) == 3 && words[0] == "VmHWM:" {
			kibibytes, _ := strconv.ParseInt(words[1], 10, 64)
			return kibibytes << 10
		}
	}
	return 0
}

// PIDOf returns the id of the process that listens at an address, given as host and port. It returns 0 if the process is on
// another machine, is this process itself, or is unknown.
func PIDOf(ctx context.Context, address string) int32 {
	host, port, err := net.SplitHostPort(address)
	if err != nil || !here(ctx, host) {
		return 0
	}
	connections, err := psnet.ConnectionsWithContext(ctx, "tcp")
	if err != nil {
		return 0
	}
	for _, c := range connections {
		if c.Status != "LISTEN" || strconv.Itoa(int(c.Laddr.Port)) != port || c.Pid == int32(os.Getpid()) {
			continue
		}
		p, err := process.NewProcessWithContext(ctx, c.Pid)
		if err != nil {
			return 0
		}
		if name, err := p.NameWithContext(ctx); err != nil || name == "docker-proxy" {
			return 0 // it forwards to a server whose process is not visible
		}
		return c.Pid
	}
	return 0
}

// here reports whether a host is this machine.
func here(ctx context.Context, host string) bool {
	addresses, err := net.DefaultResolver.LookupIPAddr(ctx, host)
	if err != nil {
		return false
	}
	own, err := net.InterfaceAddrs()
	if err != nil {
		return false
	}
	for _, a := range addresses {
		for _, o := range own {
			if network, ok := o.(*net.IPNet); ok && network.IP.Equal(a.IP) {
				return true
			}
		}
	}
	return false
}

// meter measures the processor time of processes between two moments.
type meter struct {
	pids  []int32
	begun []time.Duration
	known []bool
}

// startMeter starts to measure processes. A pid of 0 means an unknown process.
func startMeter(ctx context.Context, pids ...int32) *meter {
	m := &meter{pids: pids}
	for _, pid := range pids {
		used, ok := CPUOf(ctx, pid)
		m.begun, m.known = append(m.begun, used), append(m.known, ok)
	}
	return m
}

// used returns the processor time of process n since startMeter. Nil means unknown.
func (m *meter) used(ctx context.Context, n int) *time.Duration {
	now, ok := CPUOf(ctx, m.pids[n])
	if !ok || !m.known[n] {
		return nil
	}
	used := now - m.begun[n]
	return &used
}
