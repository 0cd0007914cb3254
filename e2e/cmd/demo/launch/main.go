// Command launch compiles the demo and the consumer, shows the progress, and becomes the demo. It is so small that it compiles
// within seconds, while the first compilation of the demo takes minutes.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"waterwheel/e2e/cmd/demo/choices"
)

// tags leave out backends of FerretDB that the demo does not use.
const tags = "ferretdb_no_postgresql"

func main() {
	if err := run(os.Args[1:]); errors.Is(err, flag.ErrHelp) {
		return
	} else if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// run does not return if it succeeds, because the process then becomes the demo.
func run(args []string) error {
	c, err := choices.Parse(args, os.Stdout)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	program, err := compile(ctx, &c)
	stop()
	if err != nil {
		return err
	}
	if err := syscall.Exec(program, append([]string{program}, c.Args()...), os.Environ()); err != nil {
		return fmt.Errorf("starting %s: %w", program, err)
	}
	return nil
}

// compile builds the demo into bin/, and the consumer unless one is given. It returns the path of the demo.
func compile(ctx context.Context, c *choices.Choices) (program string, err error) {
	root, err := filepath.Abs("..")
	if err != nil {
		return "", fmt.Errorf("looking for the repository: %w", err)
	}
	if _, err := os.Stat(filepath.Join(root, "cmd", "consumer")); err != nil {
		return "", fmt.Errorf("looking for cmd/consumer (use make demo): %w", err)
	}
	builds := []build{{
		name: "the demo", dir: filepath.Join(root, "e2e"), pkg: "./cmd/demo", tags: tags, to: filepath.Join(root, "bin", "demo"),
	}}
	if c.Consumer == "" {
		c.Consumer = filepath.Join(root, "bin", "demo-consumer")
		builds = append(builds, build{name: "the consumer", dir: root, pkg: "./cmd/consumer", to: c.Consumer})
	} else if _, err := os.Stat(c.Consumer); err != nil {
		return "", fmt.Errorf("looking for the consumer: %w", err)
	}
	for _, b := range builds {
		if err := b.run(ctx, newProgress(os.Stdout, b.name)); err != nil {
			return "", err
		}
	}
	return builds[0].to, nil
}
