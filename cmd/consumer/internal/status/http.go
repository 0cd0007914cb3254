package status

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"waterwheel/cmd/consumer/internal/text"
)

// Bounds of the pages' connections.
const (
	readTimeout  = 5 * time.Second
	pageTimeout  = 15 * time.Second
	closeTimeout = time.Second
	// maxRequests are answered at a time, beside those that ask for health: a supervisor must not take a consumer that many
	// look at for a dead one.
	maxRequests = 16
)

// Server is one address that answers HTTP.
type Server struct {
	setting string // the variable its address comes from
	address string
	handler http.Handler
	// longest bounds an answer; 0: it takes as long as it was asked to.
	longest time.Duration
	log     *slog.Logger
}

// Pages are health, readiness, metrics and status at HTTP_ADDR.
func (v *View) Pages(address string, metrics prometheus.Gatherer) *Server {
	return &Server{setting: "HTTP_ADDR", address: address, handler: pages(v.snapshot, v.page, metrics), longest: pageTimeout, log: v.o.Log}
}

// pages calls status for each request of readiness or status, from several goroutines at once; nobody changes what it returns. And
// drawn puts together what the page shows of that.
func pages(status func() Snapshot, drawn func(*Snapshot) *page, metrics prometheus.Gatherer) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) { serveReadiness(w, status()) })
	mux.Handle("GET /metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /api/status", func(w http.ResponseWriter, _ *http.Request) {
		view := status()
		writeJSON(w, drawn(&view).report())
	})
	mux.HandleFunc("GET /api/hour", func(w http.ResponseWriter, _ *http.Request) {
		view := status()
		writeJSON(w, drawn(&view).hour.numbers())
	})
	mux.HandleFunc("GET /page.js", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/javascript; charset=utf-8")
		_, _ = io.WriteString(w, pageScript)
	})
	mux.Handle("GET /docs/", newManual())
	mux.Handle("GET /runbook", http.RedirectHandler("docs/runbook.md", http.StatusFound))
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		view := status()
		render(w, statusTemplate, drawn(&view))
	})
	return guarded(limited(mux, maxRequests))
}

// limited answers so many requests at a time and sends the others away, but for health and readiness.
func limited(next http.Handler, most int) http.Handler {
	places := make(chan struct{}, most)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/healthz" || r.URL.Path == "/readyz" {
			next.ServeHTTP(w, r)
			return
		}
		select {
		case places <- struct{}{}:
			defer func() { <-places }()
			next.ServeHTTP(w, r)
		default:
			w.Header().Set("Retry-After", "1")
			http.Error(w, "too many requests at once", http.StatusServiceUnavailable)
		}
	})
}

// guarded tells browsers to take every answer for nothing but what it is, from nowhere else and for nobody else.
func guarded(next http.Handler) http.Handler {
	headers := map[string]string{
		"X-Content-Type-Options":       "nosniff",
		"Content-Security-Policy":      "default-src 'none'; style-src 'unsafe-inline'; script-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
		"X-Frame-Options":              "DENY", // frame-ancestors, for older browsers
		"Cross-Origin-Resource-Policy": "same-origin",
		"Referrer-Policy":              "no-referrer",
		"Cache-Control":                "no-store",
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name, value := range headers {
			w.Header().Set(name, value)
		}
		next.ServeHTTP(w, r)
	})
}

// Profiles are Go's, at PPROF_ADDR.
func Profiles(address string, log *slog.Logger) *Server {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	return &Server{setting: "PPROF_ADDR", address: address, handler: mux, log: log}
}

// Run answers until ctx ends; without an address it does nothing. Then it lets requests finish that are under way, until closing
// ends, or for a moment. It returns an error only when it cannot listen or is cut off.
func (s *Server) Run(ctx, closing context.Context) error {
	if s.address == "" {
		return nil
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", s.address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("listening at %s: another process is using this port: choose another %s: %w", s.address, s.setting, err)
	}
	if err != nil {
		return fmt.Errorf("listening at %s (%s): %w", s.address, s.setting, err)
	}
	s.log.Info("listening", "setting", s.setting, "address", listener.Addr().String(), "answers", audience(listener.Addr()))
	server := &http.Server{
		Handler:           s.handler,
		ReadHeaderTimeout: readTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      s.longest,
		IdleTimeout:       time.Minute,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	select {
	case err = <-served:
	case <-ctx.Done():
		closing, cancel := context.WithTimeout(closing, closeTimeout)
		defer cancel()
		if server.Shutdown(closing) != nil {
			server.Close()
		}
		err = <-served
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("serving at %s (%s): %w", s.address, s.setting, err)
}

// audience says who can reach an address that is listened at.
func audience(address net.Addr) string {
	if tcp, ok := address.(*net.TCPAddr); ok && tcp.IP.IsLoopback() {
		return "this machine only"
	}
	return "whoever the network lets through"
}

func serveReadiness(w http.ResponseWriter, view Snapshot) {
	if len(view.NotReady) > 0 {
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprintln(w, join(view.NotReady, "\n"))
		return
	}
	fmt.Fprintln(w, join(append([]Notice{{Text: "ready"}}, view.Degraded...), "\n"))
}

// Report is what /api/status has: the first sentence of the page, and the present moment.
type Report struct {
	Headline Headline `json:"headline"`
	Snapshot
}

// Hour is what /api/hour has: the four numbers of the last hour, oldest first; nil where a number is not known.
type Hour struct {
	End             time.Time  `json:"end"`
	IntervalSeconds int        `json:"intervalSeconds"`
	Stored          []*float64 `json:"storedPerSecond"`
	Freshness       []*float64 `json:"freshnessSeconds"`
	Lag             []*float64 `json:"lagRecords"`
	Letters         []*float64 `json:"letters"`
}

func (v *hourSeen) numbers() Hour {
	of := func(value func(*sample) float64) []*float64 {
		all := make([]*float64, hourSamples)
		for i := range v.samples {
			if s := &v.samples[i]; s.tick != 0 && value(s) >= 0 {
				all[i] = new(value(s))
			}
		}
		return all
	}
	return Hour{
		End: v.time(hourSamples - 1), IntervalSeconds: int(sampleInterval.Seconds()),
		Stored: of(storedOf), Freshness: of(freshnessOf), Lag: of(lagOf), Letters: of(lettersOf),
	}
}

func writeJSON(w http.ResponseWriter, view any) {
	w.Header().Set("Content-Type", "application/json")
	_ = text.WriteJSON(w, view) // fails only when the reader is gone
}

// report is the page without its drawings. Lists are lists to readers of JSON, also when they are empty.
func (p *page) report() Report {
	view := p.Snapshot
	view.NotReady = append([]Notice{}, view.NotReady...)
	view.Partitions = append([]Partition{}, view.Partitions...)
	view.Letters = append([]Letter{}, view.Letters...)
	return Report{p.Headline, view}
}
