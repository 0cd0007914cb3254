package bench_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/pprof"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"waterwheel/e2e/bench"
)

// windows answers each request with a profile. The number of its samples is the number of the request. Requests after the last
// fail.
type windows struct {
	last    int64
	asked   atomic.Int64
	samples *pprof.Profile
	reached chan struct{} // closed at the first request after the last
}

func (w *windows) ServeHTTP(answer http.ResponseWriter, r *http.Request) {
	n := w.asked.Add(1)
	switch {
	case r.URL.Path != "/debug/pprof/profile" || r.URL.Query().Get("seconds") == "":
		http.Error(answer, "no such profile", http.StatusNotFound)
	case n > w.last:
		if n == w.last+1 {
			close(w.reached)
		}
		http.Error(answer, "the window is broken", http.StatusServiceUnavailable)
	default:
		for i := range n {
			w.samples.Add([2]int64{n, i}, 0)
		}
		_ = w.samples.WriteTo(answer, 0)
		for i := range n {
			w.samples.Remove([2]int64{n, i})
		}
	}
}

// TestProfilesOfATurnBecomeOne checks that one file contains all windows. If a window fails, the file contains those before it,
// and the failure is reported.
func TestProfilesOfATurnBecomeOne(t *testing.T) {
	for last, want := range map[int64]string{3: "100% of 6 total", 1: "100% of 1 total", 0: ""} {
		t.Run(fmt.Sprint(last), func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			w := &windows{last: last, samples: pprof.NewProfile(t.Name()), reached: make(chan struct{})}
			server := httptest.NewServer(w)
			defer server.Close()
			dir := t.TempDir()
			b := &bench.Bench{Profiles: dir}
			ended, end := context.WithCancel(ctx)
			end() // a turn that took too long has a profile too
			err := b.ProfileOf(ended, bench.Drain{Peer: bench.Discard, Round: 2}, server.Listener.Addr().String(), w.reached)
			if err == nil || !strings.Contains(err.Error(), "the window is broken") {
				t.Errorf("the error is %v", err)
			}
			checkProfiles(ctx, t, dir, want)
		})
	}
}

// checkProfiles checks that the folder has one file for which pprof prints want. If want is empty, there must be no file.
func checkProfiles(ctx context.Context, t *testing.T, dir, want string) {
	t.Helper()
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if want == "" {
		if len(files) > 0 {
			t.Errorf("%v is left", files)
		}
		return
	}
	if len(files) != 1 || files[0].Name() != "discard-2.pprof" {
		t.Fatalf("the folder has %v", files)
	}
	text, err := exec.CommandContext(ctx, "go", "tool", "pprof", "-top", filepath.Join(dir, "discard-2.pprof")).CombinedOutput()
	if err != nil || !strings.Contains(string(text), want) {
		t.Errorf("%v, pprof says\n%s", err, text)
	}
}
