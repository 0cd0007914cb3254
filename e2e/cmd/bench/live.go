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

// drawLive measures each case of the grid in each way, one after the other, and draws the results. It reports a failed case and
// leaves it out.
func (f *figures) drawLive(ctx context.Context, b *bench.Bench, dir, command string) error {
	within, beyond := f.cases, []live.Case(nil)
	if len(within) == 0 {
		within, beyond = live.Grid(f.most)
	}
	share := live.Share(time.Duration(f.minutes*float64(time.Minute)), len(within)*len(f.ways))
	fmt.Printf("%d cases, each in %d ways of %s\n", len(within), len(f.ways), share.Round(time.Second))
	head := provenance(bench.Look(ctx, b.Servers), command)
	var results []live.Result
	var failed []error
	for _, c := range within {
		for _, way := range f.ways {
			r, err := live.Measure(ctx, b, c, way, share)
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err != nil {
				failed = append(failed, fmt.Errorf("%s, %s: %w", c, way, err))
				fmt.Println(failed[len(failed)-1])
			}
			if r != nil {
				fmt.Printf("%s, %s: stored %.0f/s, %.2f µs of own CPU, %s of the server's, %.1f measurements a write, %.1f a bucket, freshness %s s %s\n",
					c, way, r.Stored, r.CPU, serverCPU(*r), r.PerWrite, r.Density, r.Freshness, r.Trouble)
				results = append(results, *r)
			}
		}
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
	fmt.Fprintf(&text, "%s Each case took %s in each way, of which the second and third fourth are measured, and the last for freshness.",
		head, share.Round(time.Second))
	if len(beyond) > 0 {
		fmt.Fprintf(&text, " Left out are %d cases of more than %.0f measurements a second.", len(beyond), f.most)
	}
	fmt.Fprintf(&text, "\n\n%s\n", live.Table(results))
	for _, name := range names {
		fmt.Fprintf(&text, "![%s](benchmarks/%s)\n\n", strings.TrimSuffix(name, ".svg"), name)
	}
	return errors.Join(append(failed, replaceSection(filepath.Join(f.docs, document), "live", text.String()))...)
}

// serverCPU returns the server's processor time per measurement as text.
func serverCPU(r live.Result) string {
	if r.ServerCPU == nil {
		return "an unknown time"
	}
	return fmt.Sprintf("%.2f µs", *r.ServerCPU)
}
