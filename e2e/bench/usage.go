package bench

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	psnet "github.com/shirou/gopsutil/v4/net"
	"github.com/shirou/gopsutil/v4/process"
)

// ownCPU returns the processor time of this process, in user and system mode.
func ownCPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0 // fails only with wrong arguments
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// cpuOf returns the processor time of a process, in steps of the system's clock (10 ms on Linux). A negative time means unknown.
func cpuOf(ctx context.Context, pid int) time.Duration {
	if pid == 0 {
		return -1
	}
	p, err := process.NewProcessWithContext(ctx, int32(pid))
	if err != nil {
		return -1
	}
	times, err := p.TimesWithContext(ctx)
	if err != nil {
		return -1
	}
	return time.Duration((times.User + times.System) * float64(time.Second))
}

var residentLine = regexp.MustCompile(`(?m)^VmHWM:\s+(\d+) kB$`)

// maxResidentOf returns the maximum resident memory of a process in bytes. Zero means unknown. It does not use the rusage of a
// child, which begins with the value of its parent.
func maxResidentOf(pid int) int64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if found := residentLine.FindSubmatch(status); err == nil && found != nil {
		kibibytes, _ := strconv.ParseInt(string(found[1]), 10, 64)
		return kibibytes << 10
	}
	return 0
}

// mongoPID returns the id of MongoDB's process, or 0 if it is unknown.
func mongoPID(ctx context.Context, text string) int {
	uri, err := url.Parse(text)
	if err != nil {
		return 0
	}
	return pidOf(ctx, uri.Host)
}

// pidOf returns the id of the process that listens at an address of the loopback interface, given as host and port. It returns 0 for
// another or several addresses, for this process itself, and for an unknown process.
func pidOf(ctx context.Context, address string) int {
	host, port, err := net.SplitHostPort(strings.Replace(address, "localhost", "127.0.0.1", 1))
	if ip := net.ParseIP(host); err != nil || ip == nil || !ip.IsLoopback() {
		return 0
	}
	connections, err := psnet.ConnectionsWithContext(ctx, "tcp")
	if err != nil {
		return 0
	}
	for _, c := range connections {
		if c.Status != "LISTEN" || strconv.Itoa(int(c.Laddr.Port)) != port || int(c.Pid) == os.Getpid() {
			continue
		}
		p, err := process.NewProcessWithContext(ctx, c.Pid)
		if err != nil {
			return 0
		}
		if name, err := p.NameWithContext(ctx); err != nil || name == "docker-proxy" {
			return 0 // it forwards to a server whose process is not visible
		}
		return int(c.Pid)
	}
	return 0
}

// meter measures the processor time of a process from a moment on.
type meter struct {
	pid   int
	begun time.Duration
}

func startMeter(ctx context.Context, pid int) meter { return meter{pid, cpuOf(ctx, pid)} }

// used returns the processor time since startMeter. A negative time means unknown.
func (m meter) used(ctx context.Context) time.Duration {
	now := cpuOf(ctx, m.pid)
	if now < 0 || m.begun < 0 {
		return -1
	}
	return now - m.begun
}
