// Command generate writes the files that are made from tables in Go, and copies that a chart needs within its folder. "make docs"
// runs it in the root of the repository.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"waterwheel/internal/dashboard"
	"waterwheel/internal/metrics"
)

func main() {
	files, err := generated(".")
	for _, f := range files {
		if err == nil {
			err = os.WriteFile(f.name, []byte(f.content), 0o644)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

// file is one generated file. Its name is relative to the root of the repository.
type file struct{ name, content string }

// generated returns all generated files. root is the root of the repository.
func generated(root string) ([]file, error) {
	rules, err := os.ReadFile(filepath.Join(root, "deploy/prometheus/waterwheel.rules.yml"))
	if err != nil {
		return nil, fmt.Errorf("reading the rules for the chart: %w", err)
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, []byte(dashboard.JSON())); err != nil {
		return nil, fmt.Errorf("writing the dashboard for the chart: %w", err)
	}
	return []file{
		{"docs/metrics.md", metrics.Markdown()},
		{"deploy/grafana/waterwheel.json", dashboard.JSON()},
		{"deploy/chart/values.schema.json", valuesSchema()},
		{"deploy/chart/files/waterwheel.json", compact.String() + "\n"},
		{"deploy/chart/files/waterwheel.rules.yml", string(rules)},
	}, nil
}
