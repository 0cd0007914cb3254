package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// complete tells a shell, for every command below this one, the words that its flags and arguments may have. No server is asked.
func (p *Program) complete(cmd *cobra.Command) {
	for _, c := range cmd.Commands() {
		p.complete(c)
	}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		// The error is of a flag that has its words already: a command is only built once.
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

// wordsOf are the words that a flag may have, as far as they are known.
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

// topics are those of KAFKA_TOPICS, whatever else the settings are.
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

// firstOf offers words as the first argument, and nothing behind it.
func firstOf(list []string) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return list, cobra.ShellCompDirectiveNoFileComp
	}
}

// completionCommand makes the command that writes a shell's script refuse a shell that it does not know.
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
