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

// usageHint names the help of the command with the mistake.
func usageHint(cmd *cobra.Command) string {
	if cmd.Name() == "help" {
		cmd = cmd.Parent()
	}
	return fmt.Sprintf("Run %q for usage.", strings.Replace(cmd.CommandPath(), cmd.Root().Name(), cmd.Root().Name()+" help", 1))
}

// flagError explains a wrong flag, and suggests the nearest flag or word.
func flagError(cmd *cobra.Command, err error) error {
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok && unknown.GetSpecifiedShortnames() == "" {
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		if near := words.Near(unknown.GetSpecifiedName(), names); near != "" {
			err = fmt.Errorf("%w: did you mean --%s?", err, near)
		}
	}
	if invalid, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		cause := invalid.Unwrap()
		if errors.Is(cause, strconv.ErrSyntax) || errors.Is(cause, strconv.ErrRange) {
			cause = errors.New("must be a whole number")
		}
		err = fmt.Errorf("--%s is %q: %w", invalid.GetFlag().Name, invalid.GetValue(), cause)
	}
	return usageError{err}
}

// helpCommand is "help" for the subcommands of a command: "waterwheel help dlq list" and "waterwheel dlq help list" are the same.
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

// commandNamed returns the subcommand of a name. Nil means that there is none.
func commandNamed(of *cobra.Command, name string) *cobra.Command {
	for _, c := range of.Commands() {
		if c.Name() == name || c.HasAlias(name) {
			return c
		}
	}
	return nil
}

// unknownCommand returns an error about an unknown subcommand, with suggestions.
func unknownCommand(of *cobra.Command, name string) error {
	err := fmt.Errorf("no such command: %q", name)
	if near := of.SuggestionsFor(name); len(near) > 0 {
		err = fmt.Errorf("%w: did you mean %s?", err, strings.Join(near, " or "))
	}
	return usageError{err}
}

// complete defines, for every command below cmd, the words that a shell offers for flags and arguments. It makes no request to a
// server.
func (p *Program) complete(cmd *cobra.Command) {
	for _, c := range cmd.Commands() {
		p.complete(c)
	}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		// An error means that the flag has its words already, which cannot happen, because a command is built only once.
		_ = cmd.RegisterFlagCompletionFunc(f.Name, cobra.FixedCompletions(p.wordsOf(f), cobra.ShellCompDirectiveNoFileComp))
	})
	switch {
	case cmd.ValidArgsFunction != nil:
	case cmd.Name() == "query":
		cmd.ValidArgsFunction = p.completeSeries
	case len(cmd.ValidArgs) > 0:
		cmd.ValidArgsFunction = firstOf(cmd.ValidArgs)
	case cmd.Runnable():
		cmd.ValidArgsFunction = cobra.NoFileCompletions
	}
}

// wordsOf returns the known words for a flag.
func (p *Program) wordsOf(f *pflag.Flag) []string {
	if c, ok := f.Value.(choice); ok {
		return c.words
	}
	switch f.Name {
	case "topic":
		return p.topics()
	case "reason":
		return reasonNames()
	}
	return nil
}

// topics returns the topics of KAFKA_TOPICS. It ignores all other settings.
func (p *Program) topics() (list []string) {
	for topic := range strings.SplitSeq(p.variable("KAFKA_TOPICS"), ",") {
		if topic = strings.TrimSpace(topic); topic != "" {
			list = append(list, topic)
		}
	}
	return list
}

// completeSeries offers the time series of KAFKA_TOPICS as the first argument.
func (p *Program) completeSeries(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	var names []string
	for _, topic := range p.topics() {
		name := topic
		if pattern := p.variable("MONGODB_COLLECTION"); pattern != "" {
			name = strings.ReplaceAll(pattern, "{topic}", topic)
		}
		names = append(names, name)
	}
	return firstOf(names)(cmd, args, begun)
}

// firstOf offers words as the first argument, and nothing after it.
func firstOf(list []string) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return list, cobra.ShellCompDirectiveNoFileComp
	}
}

// completionCommand makes the command for shell scripts reject an unknown shell.
func completionCommand(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	cmd := commandNamed(root, "completion")
	var shells []string
	for _, c := range cmd.Commands() {
		shells = append(shells, c.Name())
	}
	cmd.SuggestionsMinimumDistance = 2
	cmd.Args = noArguments
	cmd.RunE = func(*cobra.Command, []string) error {
		return usageError{errors.New("which shell? " + fmt.Sprintf("%q", cmd.CommandPath()) + " needs one of " + strings.Join(shells, ", "))}
	}
}
