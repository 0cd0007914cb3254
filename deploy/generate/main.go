// Command generate writes the files that are made from tables in Go: "make docs" runs it in the root of the repository.
package main

import (
	"fmt"
	"os"

	"waterwheel/internal/dashboard"
	"waterwheel/internal/metrics"
)

// files are what each file is made of.
var files = map[string]func() string{
	"docs/metrics.md":                metrics.Markdown,
	"deploy/grafana/waterwheel.json": dashboard.JSON,
}

func main() {
	for name, content := range files {
		if err := os.WriteFile(name, []byte(content()), 0o644); err != nil {
			fmt.Fprintln(os.Stderr, "generate:", err)
			os.Exit(1)
		}
	}
}
