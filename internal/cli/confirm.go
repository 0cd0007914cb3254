package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// confirmation is how a person tells a command to do what deletes something, or what no command takes back. Each such command
// has these flags, works out first what it would do, and asks by program.confirmed.
type confirmation struct{ dryRun, yes bool }

func (c *confirmation) flags(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&c.dryRun, "dry-run", false, "show what would be done, and do nothing")
	cmd.Flags().BoolVar(&c.yes, "yes", false, "do it without asking; needed where no terminal is there to ask at")
}

func (c *confirmation) check() error {
	if c.dryRun && c.yes {
		return usageError{errors.New("--dry-run and --yes exclude each other")}
	}
	return nil
}

// errUnconfirmed is the error of a command that was told neither way, and has nobody to ask.
var errUnconfirmed = errors.New("nothing was changed: repeat it with --yes to do it, or with --dry-run to only look")

// errDeclined is the error of a command whose question was not answered with yes.
var errDeclined = errors.New("nothing was changed, as asked")

// confirmed reports whether to do what a plan says. Without --yes it shows the plan, and asks at the terminal whether to go on;
// where there is none, the command refuses.
func (p *Program) confirmed(ctx context.Context, c confirmation, plan any, print func(io.Writer)) (bool, error) {
	switch {
	case c.yes:
		return true, nil
	case c.dryRun:
		return false, p.show(plan, print)
	case !p.interactive:
		return false, errors.Join(p.show(plan, print), errUnconfirmed)
	}
	print(p.Stderr)
	fmt.Fprint(p.Stderr, "Do it? [y/N] ")
	answer := make(chan string, 1)
	go func() { // reading cannot be interrupted; the program ends when it is
		line, _ := bufio.NewReader(p.Stdin).ReadString('\n')
		answer <- line
	}()
	select {
	case line := <-answer:
		if word := strings.ToLower(strings.TrimSpace(line)); word == "y" || word == "yes" {
			return true, nil
		}
		return false, errDeclined
	case <-ctx.Done():
		return false, fmt.Errorf("interrupted: nothing was changed: %w", context.Cause(ctx))
	}
}

// shower shows what a command found, or would do, as program.show does.
type shower func(found any, print func(io.Writer)) error

// onceConfirmed runs what can run dry: at once with --yes; else dry, and once more when the plan that it shows is confirmed.
func (p *Program) onceConfirmed(ctx context.Context, c confirmation, run func(dry bool, show shower) error) error {
	if c.yes {
		return run(false, p.show)
	}
	confirmed := false
	err := run(true, func(plan any, print func(io.Writer)) (err error) {
		confirmed, err = p.confirmed(ctx, c, plan, print)
		return err
	})
	if !confirmed || err != nil && !errors.Is(err, errFound) {
		return err
	}
	return run(false, p.show)
}
