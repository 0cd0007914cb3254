package web

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestRequestsAreLimited checks that requests beyond the limit are refused, while health checks are still answered.
func TestRequestsAreLimited(t *testing.T) {
	entered, leave := make(chan bool), make(chan bool)
	handler := Limited(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" {
			entered <- true
			<-leave
		}
	}), 2, 0, Busy, "/healthz", "/readyz")
	ask := func(path string) *httptest.ResponseRecorder {
		recorder := httptest.NewRecorder()
		handler.ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, path, nil))
		return recorder
	}
	var asking sync.WaitGroup
	for range 2 {
		asking.Go(func() { ask("/") })
		<-entered
	}
	if r := ask("/metrics"); r.Code != http.StatusServiceUnavailable || r.Header().Get("Retry-After") == "" {
		t.Errorf("one too many: %d, %v", r.Code, r.Header())
	}
	for _, path := range []string{"/healthz", "/readyz"} {
		if r := ask(path); r.Code != http.StatusOK {
			t.Errorf("%s: %d", path, r.Code)
		}
	}
	close(leave)
	asking.Wait()
	if r := ask("/metrics"); r.Code != http.StatusOK {
		t.Errorf("afterwards: %d", r.Code)
	}
}

// TestRequestsWaitForAPlace checks that a burst of requests is answered, one after the other.
func TestRequestsWaitForAPlace(t *testing.T) {
	handler := Limited(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { time.Sleep(time.Millisecond) }), 2, time.Minute, Busy)
	var asking sync.WaitGroup
	var answered atomic.Int32
	for range 2 + 2*waitersEach {
		asking.Go(func() {
			recorder := httptest.NewRecorder()
			if handler.ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, "/", nil)); recorder.Code == http.StatusOK {
				answered.Add(1)
			}
		})
	}
	if asking.Wait(); answered.Load() != 2+2*waitersEach {
		t.Errorf("%d requests were answered", answered.Load())
	}
}

// TestListeningSaysWhoIsAnswered checks this because a page that answers only this machine looks dead to a probe from outside.
func TestListeningSaysWhoIsAnswered(t *testing.T) {
	for ip, want := range map[string]string{"127.0.0.1": "this machine only", "::1": "this machine only", "0.0.0.0": "all machines", "::": "all machines", "192.0.2.1": "all machines"} {
		if got := audience(&net.TCPAddr{IP: net.ParseIP(ip)}); !strings.HasPrefix(got, want) {
			t.Errorf("%s answers %q, want %q", ip, got, want)
		}
	}
}

// TestWaitingEnds checks requests that get no place: one in time, one that may not wait, and one whose client has gone.
func TestWaitingEnds(t *testing.T) {
	entered, leave := make(chan bool), make(chan bool)
	handler := Limited(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		entered <- true
		<-leave
	}), 1, 10*time.Millisecond, Busy)
	var asking sync.WaitGroup
	asking.Go(func() {
		handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
	})
	<-entered
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for name, ctx := range map[string]context.Context{"in time": t.Context(), "gone": gone} {
		recorder := httptest.NewRecorder()
		handler.ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, "/", nil).WithContext(ctx))
		if recorder.Code != http.StatusServiceUnavailable {
			t.Errorf("%s: %d", name, recorder.Code)
		}
	}
	close(leave)
	asking.Wait()
}
