package cli

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"waterwheel/internal/words"
)

// usageHint names the help of the command where the mistake is.
func usageHint(cmd *cobra.Command) string {
	if cmd.Name() == "help" {
		cmd = cmd.Parent()
	}
	return fmt.Sprintf("Run %q for usage.", strings.Replace(cmd.CommandPath(), cmd.Root().Name(), cmd.Root().Name()+" help", 1))
}

// flagError explains a wrong flag, and names the flag or the word that is near.
func flagError(cmd *cobra.Command, err error) error {
	if unknown := (*pflag.NotExistError)(nil); errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() == "" {
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		if near := words.Near(unknown.GetSpecifiedName(), names); near != "" {
			err = fmt.Errorf("%w: did you mean --%s?", err, near)
		}
	}
	if invalid := (*pflag.InvalidValueError)(nil); errors.As(err, &invalid) {
		cause := invalid.Unwrap()
		if errors.Is(cause, strconv.ErrSyntax) || errors.Is(cause, strconv.ErrRange) {
			cause = errors.New("must be a whole number")
		}
		err = fmt.Errorf("--%s is %q: %w", invalid.GetFlag().Name, invalid.GetValue(), cause)
	}
	return usageError{err}
}

// helpCommand is "help" for the commands of a command: "waterwheel help dlq list" and "waterwheel dlq help list" are the same.
func helpCommand(about *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Explain a command",
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			found, rest, err := about.Find(args)
			if err != nil || len(rest) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			var names []string
			for _, c := range found.Commands() {
				if c.IsAvailableCommand() {
					names = append(names, c.Name()+"\t"+c.Short)
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(_ *cobra.Command, args []string) error {
			found := about
			for _, name := range args {
				next := commandNamed(found, name)
				if next == nil {
					return unknownCommand(found, name)
				}
				found = next
			}
			found.InitDefaultHelpFlag()
			return found.Help()
		},
	}
}

// commandNamed is the command of a name among those of a command; nil: it has none.
func commandNamed(of *cobra.Command, name string) *cobra.Command {
	for _, c := range of.Commands() {
		if c.Name() == name || c.HasAlias(name) {
			return c
		}
	}
	return nil
}

// unknownCommand is about a word that is no command of a command, with those that may be meant.
func unknownCommand(of *cobra.Command, name string) error {
	err := fmt.Errorf("no such command: %q", name)
	if near := of.SuggestionsFor(name); len(near) > 0 {
		err = fmt.Errorf("%w: did you mean %s?", err, strings.Join(near, " or "))
	}
	return usageError{err}
}
