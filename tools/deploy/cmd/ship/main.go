// Command ship makes the image or the release of the last commit. "make image" and "make release" run it in the root of the
// repository.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"

	"waterwheel/tools/deploy/ship"
)

func main() {
	root := flag.String("root", ".", "the repository")
	version := flag.String("version", "", "the version; empty: as git describes the commit")
	out := flag.String("out", "", "the folder to write, which must not exist")
	flag.Parse()
	what := flag.Arg(0)
	if flag.NArg() != 1 || what != "image" && what != "release" || *out == "" {
		fmt.Fprintln(os.Stderr, "usage: ship [-root DIR] [-version VERSION] -out DIR image|release")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, what, *root, *version, *out)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", what, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, what, root, version, out string) error {
	s, err := ship.Open(ctx, root, version)
	if err != nil {
		return err
	}
	defer s.Close()
	if what == "release" {
		if err := s.Release(ctx, out); err != nil {
			return err
		}
		fmt.Printf("%s: waterwheel %s\n", out, s.Version)
		return nil
	}
	digest, err := s.Image(ctx, out)
	if err != nil {
		return err
	}
	fmt.Printf("%s: waterwheel %s, %s\n", out, s.Version, digest)
	return nil
}
