package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"waterwheel/e2e/bench"
	"waterwheel/e2e/bench/live"
)

// drawLive measures the cases of the grid, one after the other, and draws them all. What fails is said and left out.
func (f *figures) drawLive(ctx context.Context, b *bench.Bench, dir, command string) error {
	within, beyond := f.cases, []live.Case(nil)
	if len(within) == 0 {
		within, beyond = live.Grid(f.most)
	}
	share := live.Share(time.Duration(f.minutes*float64(time.Minute)), len(within))
	fmt.Printf("%d cases of %s each\n", len(within), share.Round(time.Second))
	head := provenance(bench.Look(ctx, b.Servers), command)
	var results []live.Result
	var failed []error
	for _, c := range within {
		r, err := live.Measure(ctx, b, c, share)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			fmt.Printf("%s: %v\n", c, err)
			failed = append(failed, fmt.Errorf("%s: %w", c, err))
			continue
		}
		fmt.Printf("%s: stored %.0f/s, %.2f µs of own CPU, %.1f measurements a write, %.1f a bucket, freshness %s s\n",
			c, r.Stored, r.CPU, r.PerWrite, r.Density, r.Freshness)
		results = append(results, r)
	}
	for _, c := range beyond {
		fmt.Printf("%s: left out, %.0f a second is beyond -most %.0f\n", c, c.Total(), f.most)
	}
	if len(results) == 0 {
		return errors.Join(failed...)
	}
	if len(f.cases) > 0 {
		fmt.Print("\n", live.Table(results))
		return errors.Join(failed...) // the document shows the whole grid, or nothing
	}
	names, err := live.Draw(dir, results)
	if err != nil {
		return err
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%s Each case took %s, of which the last two thirds are measured.", head, share.Round(time.Second))
	if len(beyond) > 0 {
		fmt.Fprintf(&text, " Left out are %d cases of more than %.0f measurements a second.", len(beyond), f.most)
	}
	fmt.Fprintf(&text, "\n\n%s\n", live.Table(results))
	for _, name := range names {
		fmt.Fprintf(&text, "![%s](benchmarks/%s)\n\n", strings.TrimSuffix(name, ".svg"), name)
	}
	return errors.Join(append(failed, replaceSection(filepath.Join(f.docs, document), "live", text.String()))...)
}
