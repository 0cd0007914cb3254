package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"waterwheel/config"
	"waterwheel/internal/connect"
	"waterwheel/internal/kafka"
	"waterwheel/internal/words"
)

// runName is the name of the command that is a service. The others are for people.
const runName = "run"

func (p *Program) runCommand() *cobra.Command {
	return &cobra.Command{
		Use:   runName,
		Short: "Store measurements from Kafka in MongoDB until a signal arrives (the default)",
		Long: "Joins the consumer group and writes measurements from Kafka to MongoDB until SIGINT, SIGTERM or SIGHUP. On the signal\n" +
			"it stops reading, writes the measurements in memory, commits offsets and leaves the group, within\n" +
			"SHUTDOWN_TIMEOUT. The log names the records that it could not write by then. They will be read again. A second\n" +
			"signal ends the process immediately, with exit code 1.\n\n" +
			"When a password or another secret changes in its file, run stops in the same way and starts again with the new\nsecret.",
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := config.Load(p.Lookup, p.Environ)
			if err != nil {
				return err
			}
			p.log = newLogger(p.Stderr, c.Service.LogLevel, c.Service.LogFormat, p.onTerminal)
			p.warn(c, p.log)
			return p.rotate(cmd.Context(), rotation{config.Load, p.Run}, c, p.log)
		},
	}
}

// initPatience is how long init retries the set-up of MongoDB. An election takes about ten seconds.
const initPatience = 30 * time.Second

func (p *Program) initCommand() *cobra.Command {
	var shard string
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Create collections, indexes and the dead-letter topic",
		Long:  "Creates missing collections and indexes in MongoDB, and missing dead-letter topics in Kafka, for the topics of\nKAFKA_TOPICS. Existing ones are left as they are. \"run\" does the same when it starts.\n\nWith --shard it also shards the collections, as \"collection shard\" does.",
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			c, log, err := p.commandSettings(ctx, "info")
			if err != nil {
				return err
			}
			p.warn(c, log)
			if err := p.initialize(ctx, c, log, p.Stdout); err != nil || shard == "" {
				return err
			}
			return shardAll(ctx, c, log, p.Stdout, shard == shardHashed)
		},
	}
	cmd.Flags().Var(choice{&shard, []string{"ranged", shardHashed}}, "shard", "shard the collections, through a mongos: ranged or hashed by meta and time")
	return cmd
}

// initialize creates what run needs, and reports it.
func initialize(ctx context.Context, c config.Config, log *slog.Logger, out io.Writer) error {
	p := connect.Patience{Log: log, Bound: "waterwheel run waits longer"}
	n := connect.New()
	defer n.Close(context.WithoutCancel(ctx))
	if err := n.Open(ctx, c, p.Started(initPatience), prometheus.NewRegistry()); err != nil {
		return err
	}
	c = n.Config
	for _, topic := range c.Kafka.Topics {
		fmt.Fprintf(out, "topic %s: collections %s.%s.buckets, .partitions and .options are ready\n", topic, n.Database.Name(), c.SeriesFor(topic))
	}
	unmade := n.MakeMetaIndexes(ctx, c, log, func(series, path, index string) {
		fmt.Fprintf(out, "collection %s: created the index %s for META_INDEXES, on %s and the time\n", series, index, path)
	})
	if n.DeadLetters != nil {
		o := connect.DeadLetterOptions(c)
		kept := "until they are deleted"
		if o.Retention > 0 {
			kept = "for " + words.Span(o.Retention)
		}
		fmt.Fprintf(out, "dead-letter topics are ready: %s; new ones keep dead letters %s (DLQ_RETENTION)\n", strings.Join(o.Topics(), ", "), kept)
	}
	return unmade
}

func (p *Program) configCommand() *cobra.Command {
	var markdown bool
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Print the settings in effect, secrets masked",
		Long:  "Prints every setting as NAME=value, with secrets masked. If settings are wrong, it reports all errors instead.",
		Args:  noArguments,
		RunE: func(*cobra.Command, []string) error {
			if markdown {
				_, err := io.WriteString(p.Stdout, config.Markdown())
				return err
			}
			c, err := config.Load(p.Lookup, p.Environ)
			if err != nil {
				return err
			}
			settings := c.Settings()
			return p.show(settings, func(w io.Writer) {
				for _, s := range settings {
					fmt.Fprintf(w, "%s=%s\n", s.Name, s.Value)
				}
			})
		},
	}
	cmd.Flags().BoolVar(&markdown, "markdown", false, "print the reference of all settings instead")
	p.outputFlag(cmd, "text")
	return cmd
}

// Revision returns the commit that the program was built from, if the Go tool knew it.
func Revision() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	commit, modified := "unknown", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			commit = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			modified = "-modified"
		}
	}
	return commit + modified
}

// versionText is the output of "version" and --version.
func (p *Program) versionText() string {
	return fmt.Sprintf("waterwheel %s (commit %s, %s, %s/%s)", p.Version, Revision(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

func (p *Program) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the program's version",
		Args:  noArguments,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(p.Stdout, p.versionText())
			return err
		},
	}
}

const (
	// rotationInterval is the time between two checks of the files with secrets.
	rotationInterval = 10 * time.Second
	// rotationSpread is the time over which the restarts of members are spread if they see a new secret at the same moment. While
	// all members of a group leave at once, the group reads nothing.
	rotationSpread = 20 * time.Second
)

// ErrRotated is the cause with which the context of run or serve ends if a secret has changed. Then run hands over in order, and is
// called again.
var ErrRotated = errors.New("starting again with the new secrets")

// rotation is a service that begins again each time that a secret changes in the file that holds it, NAME_FILE or CONFIG_FILE.
type rotation struct {
	load func(lookup func(string) (string, bool), environ []string) (config.Config, error)
	run  func(ctx context.Context, c config.Config, log *slog.Logger) error
}

// rotate runs a service until it ends for another reason than a changed secret.
func (p *Program) rotate(ctx context.Context, r rotation, c config.Config, log *slog.Logger) error {
	for {
		next, err := p.runUntilRotated(ctx, r, c, log)
		if err != nil || next == nil || ctx.Err() != nil {
			return err
		}
		c = *next
	}
}

// runUntilRotated runs a service until a secret has changed. It returns the settings with the new secret. Nil means that the service
// has ended for another reason.
func (p *Program) runUntilRotated(ctx context.Context, r rotation, c config.Config, log *slog.Logger) (next *config.Config, err error) {
	running, stop := context.WithCancelCause(ctx)
	var watching sync.WaitGroup
	watching.Go(func() {
		if found, names := p.awaitRotation(running, r, &c, log); found != nil {
			next = found
			stop(fmt.Errorf("%s changed in its file: %w", strings.Join(names, ", "), ErrRotated))
		}
	})
	err = r.run(running, c, log)
	stop(nil)
	watching.Wait()
	return next, err
}

// awaitRotation reads the settings repeatedly until a secret differs. Nil means that ctx has ended before. It retries settings
// that cannot be read or that lack a secret, for example while a file is being written.
func (p *Program) awaitRotation(ctx context.Context, r rotation, c *config.Config, log *slog.Logger) (next *config.Config, names []string) {
	said, changed := false, false
	for wait := rotationInterval; kafka.Sleep(ctx, wait); {
		wait = rotationInterval
		read, err := r.load(p.Lookup, p.Environ)
		if err == nil {
			names, err = config.ChangedSecrets(c, &read)
		}
		if err != nil {
			if !said {
				log.Warn("the settings cannot be used: the secrets that were read before stay in use", "err", err)
			}
			said = true
			continue
		}
		said = false
		switch {
		case len(names) == 0:
			changed = false
		case changed:
			return &read, names
		default:
			changed, wait = true, rand.N(rotationSpread)
		}
	}
	return nil, nil
}
