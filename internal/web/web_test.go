package web

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// TestRequestsAreLimited checks that requests beyond the limit are refused, while health checks are still answered.
func TestRequestsAreLimited(t *testing.T) {
	entered, leave := make(chan bool), make(chan bool)
	handler := Limited(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" {
			entered <- true
			<-leave
		}
	}), 2, Busy, "/healthz", "/readyz")
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

// TestListeningSaysWhoIsAnswered checks this because a page that answers only this machine looks dead to a probe from outside.
func TestListeningSaysWhoIsAnswered(t *testing.T) {
	for ip, want := range map[string]string{"127.0.0.1": "this machine only", "::1": "this machine only", "0.0.0.0": "all machines", "::": "all machines", "192.0.2.1": "all machines"} {
		if got := audience(&net.TCPAddr{IP: net.ParseIP(ip)}); !strings.HasPrefix(got, want) {
			t.Errorf("%s answers %q, want %q", ip, got, want)
		}
	}
}
