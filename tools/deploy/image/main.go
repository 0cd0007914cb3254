// Command image makes the image of the repository: "make image" runs it.
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
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := makeImage(ctx, *root, *version, *out); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func makeImage(ctx context.Context, root, version, out string) error {
	s, err := ship.Open(ctx, root, version)
	if err != nil {
		return err
	}
	defer s.Close()
	digest, err := s.Image(ctx, out)
	if err != nil {
		return err
	}
	fmt.Printf("%s: waterwheel %s, %s\n", out, s.Version, digest)
	return nil
}
