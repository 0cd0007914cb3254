package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"waterwheel/e2e/bench"
	"waterwheel/e2e/bench/curves"
	"waterwheel/e2e/bench/live"
)

// figures are the drawings for the documents that the command line asks for, instead of the table.
type figures struct {
	curves bool
	only   []string // names of curves. Empty means all.
	scale  float64
	docs   string

	live    bool
	minutes float64     // duration of the live mode for all cases together
	most    float64     // measurements a second. Cases with more are left out.
	cases   []live.Case // cases to measure instead of those of the grid
	ways    []live.Way
}

// wanted reports whether to make figures instead of the table.
func (f *figures) wanted() bool { return f.curves || f.live }

func (f *figures) validate() error {
	if f.scale <= 0 {
		return fmt.Errorf("a scale of %g, not above 0", f.scale)
	}
	if f.minutes <= 0 || f.most <= 0 {
		return fmt.Errorf("%g minutes with at most %g measurements a second: both must be above 0", f.minutes, f.most)
	}
	known := curves.All(1)
	for _, name := range f.only {
		if !slices.ContainsFunc(known, func(c curves.Curve) bool { return c.Name == name }) {
			names := make([]string, len(known))
			for i, c := range known {
				names[i] = c.Name
			}
			return fmt.Errorf("no curve is named %q, only %s", name, strings.Join(names, ", "))
		}
	}
	return nil
}

// document is the page that shows the figures, in the folder of documents.
const document = "benchmarks.md"

// make makes the figures, and writes them to the folder of documents.
func (f *figures) make(ctx context.Context, b *bench.Bench, rounds int, command string) error {
	dir := filepath.Join(f.docs, "benchmarks")
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return fmt.Errorf("making the folder of drawings: %w", err)
	}
	if f.curves {
		if err := f.drawCurves(ctx, &curves.Measurer{Bench: b, Rounds: rounds}, dir, command); err != nil {
			return err
		}
	}
	if f.live {
		return f.drawLive(ctx, b, dir, command)
	}
	return nil
}

// drawCurves draws each curve as soon as it is measured.
func (f *figures) drawCurves(ctx context.Context, m *curves.Measurer, dir, command string) error {
	begun := time.Now()
	var text strings.Builder
	fmt.Fprintf(&text, "%s\n\n", provenance(bench.Look(ctx, m.Bench.Servers), command))
	for _, c := range curves.All(f.scale) {
		if len(f.only) > 0 && !slices.Contains(f.only, c.Name) {
			continue
		}
		measured, err := m.Measure(ctx, c)
		if err != nil {
			return err
		}
		name, err := c.Draw(dir, measured)
		if err != nil {
			return err
		}
		sentence := c.Sentence(measured)
		fmt.Printf("%s: %s\n", filepath.Join(dir, name), sentence)
		fmt.Fprintf(&text, "%s\n\n![Cost by %s](benchmarks/%s)\n\n", sentence, c.Axis.Name, name)
	}
	fmt.Printf("measured in %s\n", time.Since(begun).Round(time.Second))
	if len(f.only) > 0 {
		return nil // the document shows all curves of one run, or none
	}
	return replaceSection(filepath.Join(f.docs, document), "curves", text.String())
}

// provenance says where and how the figures were measured.
func provenance(m bench.Machine, command string) string {
	return fmt.Sprintf("    %s\n\nTaken on %s (%s, %d cores, load %.1f at the beginning), Kafka %s, MongoDB %s, commit %s.",
		command, time.Now().UTC().Format(time.DateOnly), m.Processor, m.Cores, m.Load, m.Kafka, m.MongoDB, m.Commit)
}

// replaceSection replaces the text between two comments of a document that mark a section.
func replaceSection(path, name, text string) error {
	old, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("reading the document: %w", err)
	}
	begin, end := "<!-- "+name+" -->\n", "<!-- end of "+name+" -->"
	before, rest, found := strings.Cut(string(old), begin)
	_, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		return fmt.Errorf("%s has no section between %s and %s", path, strings.TrimSpace(begin), end)
	}
	changed := before + begin + strings.TrimRight(text, "\n") + "\n" + end + after
	if err := os.WriteFile(path, []byte(changed), 0o600); err != nil {
		return fmt.Errorf("writing the document: %w", err)
	}
	return nil
}
