package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"waterwheel/config"
	"waterwheel/internal/cli/text"
	"waterwheel/internal/connect"
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

// runSettings loads the settings of run and creates its log.
func (p *Program) runSettings(context.Context) (config.Config, *slog.Logger, error) {
	c, err := config.Load(p.Lookup, p.Environ)
	if err != nil {
		return config.Config{}, nil, err
	}
	p.log = newLogger(p.Stderr, c.Service.LogLevel, c.Service.LogFormat, p.onTerminal)
	return c, p.log, nil
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

// start returns a function that loads the settings, warns of those that work but are probably not intended, and then calls do.
func (p *Program) start(
	settings func(context.Context) (config.Config, *slog.Logger, error), do func(ctx context.Context, c config.Config, log *slog.Logger) error,
) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, _ []string) error {
		c, log, err := settings(cmd.Context())
		if err != nil {
			return err
		}
		for _, w := range c.Warnings() {
			log.Warn(w.Message, "setting", w.Setting, "way_out", w.WayOut)
		}
		if strange := config.Strange(p.Environ); len(strange) > 0 {
			log.Info("these environment variables look like settings, but are not settings", "variables", strings.Join(strange, ","))
		}
		return do(cmd.Context(), c, log)
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
