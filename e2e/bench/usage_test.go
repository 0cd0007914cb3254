package bench

import (
	"net"
	"os/exec"
	"runtime"
	"testing"
	"time"
)

// TestUsageOfAnotherProcess checks that the server is found by its port, and that its usage is returned.
func TestUsageOfAnotherProcess(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("needs /proc")
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	ctx := within(t, 30*time.Second)
	address := listener.Addr().String()
	if pid := pidOf(ctx, address); pid != 0 {
		t.Errorf("this process is found as %d: what it uses is not the server's", pid)
	}

	file, err := listener.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	other := exec.Command("sh", "-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; echo done; exec sleep 60")
	other.ExtraFiles = append(other.ExtraFiles, file)
	out, err := other.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { other.Process.Kill(); other.Wait() }()
	file.Close()
	listener.Close() // now only the other process has it open
	if _, err := out.Read(make([]byte, 8)); err != nil {
		t.Fatal(err)
	}
	if pid := pidOf(ctx, address); pid != other.Process.Pid {
		t.Errorf("process %d listens at %s, not %d", pid, address, other.Process.Pid)
	}
	if used := cpuOf(ctx, other.Process.Pid); used <= 0 || used > time.Minute {
		t.Errorf("it used %s", used)
	}
	if bytes := maxResidentOf(other.Process.Pid); bytes < 100<<10 || bytes > 1<<30 {
		t.Errorf("it had %d bytes", bytes)
	}
	if used := cpuOf(ctx, 0); used >= 0 {
		t.Errorf("an unknown process used %s", used)
	}
	if pid := pidOf(ctx, "192.0.2.1:27017"); pid != 0 {
		t.Errorf("a process of another machine is %d", pid)
	}
}
