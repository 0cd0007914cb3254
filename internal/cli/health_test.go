package cli

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestHealthAsksTheConsumer: the exit code is what a supervisor looks at.
func TestHealthAsksTheConsumer(t *testing.T) {
	consumer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/readyz" {
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprintln(w, "MongoDB has not answered")
			return
		}
		fmt.Fprintln(w, "ok", r.URL.Path)
	}))
	address := strings.TrimPrefix(consumer.URL, "http://")
	_, port, _ := strings.Cut(address, ":")
	with := func(address string) map[string]string { return map[string]string{"HTTP_ADDR": address} }
	for _, one := range []string{address, ":" + port} {
		if code, out, errs := try(t, with(one), nil, "health"); code != exitDone || out != "ok /healthz\n" {
			t.Errorf("HTTP_ADDR=%s: exit code %d, %q, %q", one, code, out, errs)
		}
	}
	if code, out, errs := try(t, with(address), nil, "health", "--ready"); code != exitFailed || out != "" || !strings.Contains(errs, "/readyz answers 503: MongoDB has not answered") {
		t.Errorf("not ready: exit code %d, %q, %q", code, out, errs)
	}
	consumer.Close()
	if code, _, errs := try(t, with(address), nil, "health"); code != exitFailed || !strings.Contains(errs, "refused") {
		t.Errorf("no consumer: exit code %d, %q", code, errs)
	}
}
