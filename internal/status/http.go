package status

import (
	"bytes"
	"fmt"
	"html/template"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/pprof"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer/html"

	"waterwheel/docs"
	"waterwheel/internal/cli/text"
	"waterwheel/internal/web"
)

// These bound the connections of the pages.
const (
	pageTimeout = 15 * time.Second
	// maxRequests is how many requests are answered at a time. Requests for health are not limited, because a supervisor must not
	// take a busy consumer for a dead one.
	maxRequests = 16
)

// Pages returns the server of health, readiness, metrics and status at HTTP_ADDR.
func (v *View) Pages(address string, metrics prometheus.Gatherer) *web.Server {
	return &web.Server{Setting: "HTTP_ADDR", Address: address, Handler: v.pages(v.snapshot, metrics), Longest: pageTimeout, Log: v.o.Log}
}

// pages calls status for each request of readiness or status, possibly from several goroutines at once. Nothing modifies what
// status returns.
func (v *View) pages(status func() Snapshot, metrics prometheus.Gatherer) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) { serveReadiness(w, status()) })
	mux.Handle("GET /metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /api/status", func(w http.ResponseWriter, r *http.Request) {
		v.askMembers(r.Context())
		view := status()
		writeJSON(w, newReport(view, v.hour.until(view.At)))
	})
	mux.HandleFunc("GET /api/hour", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, v.hour.until(time.Now()).numbers())
	})
	mux.HandleFunc("GET /page.js", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/javascript; charset=utf-8")
		_, _ = io.WriteString(w, pageScript)
	})
	mux.Handle("GET /docs/", newManual())
	mux.Handle("GET /runbook", http.RedirectHandler("docs/runbook.md", http.StatusFound))
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		v.askMembers(r.Context())
		view := status()
		render(w, statusTemplate, v.page(&view))
	})
	return web.Guarded(web.Limited(mux, maxRequests, 0, web.Busy, "/healthz", "/readyz"))
}

// Profiles returns the server of Go's profiles at PPROF_ADDR.
func Profiles(address string, log *slog.Logger) *web.Server {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	return &web.Server{Setting: "PPROF_ADDR", Address: address, Handler: mux, Log: log}
}

// Readiness returns the first line of the answer of /readyz.
func (v *View) Readiness() string { return v.snapshot().readyz()[0].Text }

// readyz returns the lines of the answer of /readyz.
func (s Snapshot) readyz() []Notice {
	if len(s.NotReady) > 0 {
		return s.NotReady
	}
	return append([]Notice{{Text: "ready"}}, s.Degraded...)
}

func serveReadiness(w http.ResponseWriter, view Snapshot) {
	if len(view.NotReady) > 0 {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	fmt.Fprintln(w, join(view.readyz(), "\n"))
}

// Report is the answer of /api/status: the first sentence of the page, and the present moment.
type Report struct {
	Headline Headline `json:"headline"`
	Snapshot
}

// Hour is the answer of /api/hour: the four values of the last hour, oldest first. Nil means that a value is unknown.
type Hour struct {
	End             time.Time  `json:"end"`
	IntervalSeconds int        `json:"intervalSeconds"`
	Stored          []*float64 `json:"storedPerSecond"`
	Freshness       []*float64 `json:"freshnessSeconds"`
	Lag             []*float64 `json:"lagRecords"`
	DeadLetters     []*float64 `json:"deadLetters"`
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
		Stored: of(storedOf), Freshness: of(freshnessOf), Lag: of(lagOf), DeadLetters: of(deadLettersOf),
	}
}

func writeJSON(w http.ResponseWriter, view any) {
	w.Header().Set("Content-Type", "application/json")
	_ = text.WriteJSON(w, view) // fails only if the client is gone
}

// newReport adds the first sentence. It turns nil lists into empty ones, so that they are lists in JSON.
func newReport(view Snapshot, seen *hourSeen) Report {
	view.NotReady = append([]Notice{}, view.NotReady...)
	view.Partitions = append([]Partition{}, view.Partitions...)
	view.Members = append([]Member{}, view.Members...)
	view.DeadLetters = append([]RecentDeadLetter{}, view.DeadLetters...)
	return Report{headline(&view, seen), view}
}

// markdown renders the documents as repository sites do, with tables, and with an anchor for each heading.
var markdown = goldmark.New(goldmark.WithExtensions(extension.Table), goldmark.WithParserOptions(parser.WithAutoHeadingID()),
	goldmark.WithRendererOptions(html.WithUnsafe())) // our own documents have anchors in HTML

// manual serves the documents at /docs/. It renders each at the first request.
type manual struct {
	files fs.FS

	mu       sync.Mutex
	rendered map[string]template.HTML
}

func newManual() *manual { return &manual{files: docs.Files, rendered: map[string]template.HTML{}} }

// manualPage is the data of manual.html.
type manualPage struct {
	Title string
	Body  template.HTML
	Pages []string // names of all documents
}

func (m *manual) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(path.Clean(r.URL.Path), "/docs/")
	if strings.HasSuffix(name, ".svg") {
		http.ServeFileFS(w, r, m.files, name)
		return
	}
	body, err := m.page(name)
	if err != nil {
		http.NotFound(w, r)
		return
	}
	names, _ := fs.Glob(m.files, "*.md")
	render(w, manualTemplate, manualPage{Title: strings.TrimSuffix(name, ".md"), Body: body, Pages: names})
}

// page returns a document as HTML.
func (m *manual) page(name string) (template.HTML, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if body, ok := m.rendered[name]; ok {
		return body, nil
	}
	source, err := fs.ReadFile(m.files, name)
	if err != nil {
		return "", err
	}
	var body bytes.Buffer
	if err := markdown.Convert(source, &body); err != nil {
		return "", err
	}
	m.rendered[name] = template.HTML(body.String()) // our own text
	return m.rendered[name], nil
}
