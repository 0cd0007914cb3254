package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"waterwheel/config"
	"waterwheel/internal/cli/text"
	"waterwheel/internal/connect"
	"waterwheel/internal/words"
)

// These are the exit codes.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2 // wrong usage or settings; Go also uses it after a panic
	exitFound  = 3 // the command succeeded and found something
)

// errFound is returned by commands that look for problems, after they have printed the problems that they found.
var errFound = errors.New("found something")

// usageError is a mistake in the command line.
type usageError struct{ error }

// Program is the command line and its environment, which a test can replace.
type Program struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Lookup         func(name string) (string, bool) // looks up an environment variable
	Environ        []string                         // the environment, as os.Environ returns it
	Version        string
	// Run executes the command "run". It reads and writes until the context ends.
	Run func(ctx context.Context, c config.Config, log *slog.Logger) error

	// initialize creates the collections and topics that Run needs, and reports on out. Nil means the function initialize.
	initialize func(ctx context.Context, c config.Config, log *slog.Logger, out io.Writer) error
	// read opens the time series of a name, calls use, and closes it. Nil means readSeries.
	read func(ctx context.Context, c config.Config, log *slog.Logger, name string, use func(measurementSource) error) error

	onTerminal  bool         // stderr is a terminal
	interactive bool         // stdin is a terminal as well
	screen      terminal     // the terminal of stdout
	output      string       // the format of show: json, or one for people
	log         *slog.Logger // the log of run. Nil before its settings are known, and in other commands.
	aside       *aside       // receives the log lines of other commands
}

// New returns the command line of this process.
func New(version string, run func(ctx context.Context, c config.Config, log *slog.Logger) error) *Program {
	p := &Program{
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Lookup: os.LookupEnv, Environ: os.Environ(), Version: version, Run: run,
		onTerminal: isTerminal(os.Stderr), screen: terminalOf(os.Stdout),
	}
	p.interactive = p.onTerminal && terminalOf(os.Stdin) != (terminal{})
	return p
}

// Execute runs one command line and returns the exit code.
func (p *Program) Execute(ctx context.Context, args []string) int {
	out := &text.Output{Writer: p.Stdout, Terminal: p.screen != (terminal{})}
	if p.initialize == nil {
		p.initialize = initialize
	}
	if p.read == nil {
		p.read = readSeries
	}
	p.Stdout, p.aside = out, &aside{out: p.Stderr, wait: func() bool { return !p.onTerminal && out.Begun() }}
	root := p.root()
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	p.aside.release()
	runs := cmd.Name() == runName || !cmd.HasParent()
	if err != nil && ctx.Err() != nil && !runs && !errors.Is(err, context.Cause(ctx)) { // an interruption by a signal looks like an outage
		err = fmt.Errorf("interrupted: %w: %w", context.Cause(ctx), err)
	}
	if err == nil && out.Err != nil {
		err = fmt.Errorf("writing the output: %w", out.Err)
	}
	var usage usageError
	var settings *config.Error
	switch {
	case err == nil:
		return exitDone
	case errors.Is(err, errFound):
		return exitFound
	case errors.As(err, &usage):
		fmt.Fprintf(p.Stderr, "waterwheel: %v\n%s\n", err, usageHint(cmd))
		return exitUsage
	case errors.As(err, &settings):
		p.lastWords(cmd, err, "all settings: docs/configuration.md, or \"waterwheel config --markdown\"")
		return exitUsage
	}
	p.lastWords(cmd, err, "")
	return exitFailed
}

// lastWords reports why a command failed, and what helps, if that is known. For run it writes a log line, as for everything else
// that run reports, because a log collector would lose other output. If the log is not for machines, wrong settings are printed
// line by line instead.
func (p *Program) lastWords(cmd *cobra.Command, err error, help string) {
	log := p.log
	if runs := cmd.Name() == runName || !cmd.HasParent(); runs && log == nil {
		if format, _ := p.Lookup("LOG_FORMAT"); format == "json" || format != "text" && !p.onTerminal {
			log = newLogger(p.Stderr, "error", "json", false)
		}
	}
	switch {
	case log != nil && help != "":
		log.Error("the consumer stopped because of an error", "err", err, "way_out", help)
	case log != nil:
		log.Error("the consumer stopped because of an error", "err", err)
	case help != "":
		fmt.Fprintf(p.Stderr, "waterwheel: %v\n%s%s.\n", err, strings.ToUpper(help[:1]), help[1:])
	default:
		fmt.Fprintf(p.Stderr, "waterwheel: %v\n", err)
	}
}

// root returns the tree of commands. Without a command, run is executed.
func (p *Program) root() *cobra.Command {
	run := p.runCommand()
	root := &cobra.Command{
		Use:   "waterwheel",
		Short: "Store measurement events from Kafka as buckets in MongoDB, each record exactly once",
		Long: "Reads measurement events from Kafka, groups them by series and time into buckets, and stores those in MongoDB,\n" +
			"each record exactly once. Settings are environment variables; \"waterwheel config\" shows those in effect.\n\n" +
			"Exit codes: 0 done, 1 failed, 2 wrong usage or settings, 3 found a problem. Exit code 2 with a stack trace\n" +
			"means a bug in this program: restart it, and report the stack trace.",
		Args:          noArguments,
		Version:       p.versionText(),
		RunE:          run.RunE,
		SilenceUsage:  true,
		SilenceErrors: true,

		SuggestionsMinimumDistance: 2,
	}
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetOut(p.Stdout)
	root.SetErr(p.Stderr)
	root.SetFlagErrorFunc(flagError)
	root.AddCommand(run, p.initCommand(), p.checkCommand(), p.dlqCommand(), p.configCommand(), p.healthCommand(), p.versionCommand())
	root.AddCommand(p.verifyCommand(), p.collectionCommand(), p.rollupCommand(), p.queryCommand(), p.serveCommand(), p.statusCommand())
	root.SetHelpCommand(helpCommand(root))
	completionCommand(root)
	p.complete(root)
	return root
}

// progress begins a progress line for a person at stderr.
func (p *Program) progress(what string) *text.Progress {
	if !p.onTerminal {
		return text.NewProgress(nil, what)
	}
	return text.NewProgress(p.Stderr, what)
}

// commandSettings loads settings for a command with output for people. The lines of its logger are for people too, unless
// LOG_FORMAT is set, and they are never printed within the output. level is the default of LOG_LEVEL. The topics that match replace
// the patterns of KAFKA_TOPICS.
func (p *Program) commandSettings(ctx context.Context, level string) (config.Config, *slog.Logger, error) {
	c, log, err := p.patternSettings(level)
	if err != nil {
		return config.Config{}, nil, err
	}
	c, err = connect.Resolve(ctx, c, log)
	return c, log, err
}

// patternSettings is commandSettings without a request. The patterns of KAFKA_TOPICS stay in the settings.
func (p *Program) patternSettings(level string) (config.Config, *slog.Logger, error) {
	c, err := config.Load(p.Lookup, p.Environ)
	if err != nil {
		return config.Config{}, nil, err
	}
	if c.Service.LogLevel != "info" {
		level = c.Service.LogLevel
	}
	return c, newLogger(p.aside, level, cmp.Or(c.Service.LogFormat, "text"), p.onTerminal), nil
}

// warn warns of settings that work but are probably not intended.
func (p *Program) warn(c config.Config, log *slog.Logger) {
	for _, w := range c.Warnings() {
		log.Warn(w.Message, "setting", w.Setting, "way_out", w.WayOut)
	}
	if strange := config.Strange(p.Environ); len(strange) > 0 {
		log.Info("these environment variables look like settings, but are not settings", "variables", strings.Join(strange, ","))
	}
}

// family returns a command that only contains other commands.
func family(name, short, long string, commands ...*cobra.Command) *cobra.Command {
	names := make([]string, len(commands))
	for i, c := range commands {
		names[i] = c.Name()
	}
	last := len(names) - 1
	cmd := &cobra.Command{
		Use: name, Short: short, Long: long, Args: noArguments, SuggestionsMinimumDistance: 2,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return usageError{fmt.Errorf("%q needs one of its commands: %s or %s", cmd.CommandPath(), strings.Join(names[:last], ", "), names[last])}
		},
	}
	cmd.AddCommand(commands...)
	help := helpCommand(cmd)
	help.Hidden = true
	cmd.AddCommand(help)
	return cmd
}

// noArguments rejects arguments, and suggests commands that may have been meant.
func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if !cmd.HasSubCommands() {
		return usageError{fmt.Errorf("%q takes no arguments, but got %q", cmd.CommandPath(), args[0])}
	}
	return unknownCommand(cmd, args[0])
}

// terminal is the size of the terminal of standard output. Zero means that there is no terminal, or that its size is unknown.
type terminal struct{ width, height int }

// terminalOf returns the terminal of a file.
func terminalOf(f *os.File) terminal {
	width, height, ok := sizeOf(f)
	switch {
	case !ok:
		return terminal{}
	case width == 0 || height == 0:
		return terminal{plainWidth, plainHeight + terminalRest}
	}
	return terminal{width, height}
}

// isTerminal reports whether the file is a terminal.
func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// showsUnicode reports whether the terminal's locale, if there is one, supports all characters.
func (p *Program) showsUnicode() bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if value := strings.ToLower(p.variable(name)); value != "" {
			return strings.Contains(value, "utf-8") || strings.Contains(value, "utf8")
		}
	}
	return true
}

// variable returns a variable of the environment. It is empty if it is not set.
func (p *Program) variable(name string) string {
	value, _ := p.Lookup(name)
	return value
}

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
