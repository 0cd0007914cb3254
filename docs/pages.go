// Package docs holds the documents, so that the program shows them where there is no network.
package docs

import "embed"

// Files are the documents, in Markdown, and their pictures.
//
//go:embed *.md benchmarks/*.svg
var Files embed.FS
