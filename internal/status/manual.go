package status

import (
	"bytes"
	"html/template"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"sync"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer/html"

	"waterwheel/docs"
)

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
