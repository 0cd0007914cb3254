// Command launch compiles the demo and the consumer, shows the progress, and becomes the demo. It is so small that it compiles
// within seconds, while the first compilation of the demo takes minutes.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const about = `make demo shows waterwheel at work on this machine, with nothing to install: a
Kafka and a MongoDB inside the demo's process, measurements of this machine and
of some simulated sensors, and the real consumer beside it. Once it is compiled
it takes half a minute:

  1. the consumer is killed (SIGKILL) between a write and its commit, and
     started again;
  2. its group is set back to the earliest offset: it reads everything again,
     and stores nothing twice;
  3. the stored measurements are compared with the produced records, one by one;
  4. the program prints a chart and rollups of the stored measurements, and
     the demo prints one bucket.

It listens on this machine only, writes to bin/ and a temporary folder, and
exits with 0 only if every valid measurement is stored exactly once and every
bad record is a dead letter.

  make demo DEMOFLAGS=-keep     leaves everything running at the end, to look
                                around
  make demo CONSUMER=path       takes this consumer instead of building it
`

// tags leave out backends of FerretDB that the demo does not use.
const tags = "ferretdb_no_postgresql"

func main() {
	if err := run(os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// run does not return if it succeeds, because the process then becomes the demo.
func run(args []string) error {
	flags := flag.NewFlagSet("demo", flag.ContinueOnError)
	flags.Usage = func() { fmt.Fprint(os.Stdout, about) }
	keep := flags.Bool("keep", false, "leave everything running at the end")
	consumer := flags.String("consumer", "", "a built consumer")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("%q is no flag of the demo: -h explains it", flags.Arg(0))
	}
	root, err := filepath.Abs("..")
	if err != nil {
		return fmt.Errorf("looking for the repository: %w", err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	program := filepath.Join(root, "bin", "demo")
	if err := build(ctx, os.Stdout, "the demo", filepath.Join(root, "e2e"), "-tags", tags, "-o", program, "./cmd/demo"); err != nil {
		return err
	}
	if *consumer == "" {
		*consumer = filepath.Join(root, "bin", "demo-consumer")
		if err := build(ctx, os.Stdout, "the consumer", root, "-o", *consumer, "./cmd/consumer"); err != nil {
			return err
		}
	}
	if err := syscall.Exec(program, []string{program, fmt.Sprintf("-keep=%t", *keep), "-consumer", *consumer}, os.Environ()); err != nil {
		return fmt.Errorf("starting %s: %w", program, err)
	}
	return nil
}

// build runs go build, and shows how many modules it has downloaded and how many packages it has compiled. An error contains all
// other lines, such as those of the compiler.
func build(ctx context.Context, out io.Writer, name, dir string, args ...string) error {
	command := exec.CommandContext(ctx, "go", append([]string{"build", "-v"}, args...)...)
	command.Dir, command.Env = dir, append(os.Environ(), "GOWORK=off")
	said, err := command.StderrPipe()
	if err = errors.Join(err, command.Start()); err != nil {
		return fmt.Errorf("compiling %s: %w", name, err)
	}
	p := progress{out: out, name: name, begin: time.Now()}
	var other strings.Builder
	for lines := bufio.NewScanner(said); lines.Scan(); {
		switch line := lines.Text(); {
		case strings.HasPrefix(line, "go: downloading "):
			p.modules++
			p.say(time.Now())
		case strings.HasPrefix(line, "#") || strings.ContainsAny(line, " \t"):
			fmt.Fprintln(&other, line)
		default: // -v names each package
			p.packages++
			p.say(time.Now())
		}
	}
	_, _ = io.Copy(io.Discard, said)
	if err := command.Wait(); err != nil {
		return fmt.Errorf("compiling %s: %w\n%s", name, err, other.String())
	}
	return nil
}

// progress shows how far a build is.
type progress struct {
	out               io.Writer
	name              string
	begin, said       time.Time // said is the time of the last output. Zero means never.
	modules, packages int
}

// say prints a line, unless the build or the last line is too recent.
func (p *progress) say(now time.Time) {
	if now.Sub(p.begin) < 2*time.Second || now.Sub(p.said) < 10*time.Second {
		return
	}
	if p.said.IsZero() {
		fmt.Fprintf(p.out, "Go compiles %s. The first time this takes minutes, later seconds.\n", p.name)
	}
	p.said = now
	fmt.Fprintf(p.out, "%4.0f s  %d modules downloaded, %d packages compiled\n", now.Sub(p.begin).Seconds(), p.modules, p.packages)
}
