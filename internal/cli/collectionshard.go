package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"
	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/config"
	"waterwheel/internal/cli/text"
	"waterwheel/internal/collection"
	"waterwheel/internal/connect"
	"waterwheel/internal/mongodb"
	"waterwheel/internal/timeseries"
)

func (p *Program) shardCommand() *cobra.Command {
	var told confirmation
	var hashed bool
	cmd := p.onCollections(&cobra.Command{
		Use:   "shard",
		Short: "Shard collections by meta and time",
		Long: "Spreads the buckets of a collection, and the rows of its rollups, over the shards of a cluster, by the key\n" +
			"{meta: 1, \"control.min.<time>\": 1}, or with --hashed by {meta: \"hashed\", \"control.min.<time>\": 1}. Each write of a\n" +
			"bucket contains both fields, so MongoDB sends it to one shard. The command first creates the index of the key. Consumers may\n" +
			"keep running. Before MongoDB 8.0 no command can undo this.\n\n" +
			"A hashed key spreads the series over the shards, and each series stays on one shard. A ranged key keeps neighbouring series\n" +
			"together, as zones require. All buckets of a collection with data stay on one shard at first, until MongoDB's balancer moves\n" +
			"them. With a ranged key the command gives each shard a part of the segments immediately. See docs/sharding.md.",
		Example: "  waterwheel collection shard --dry-run\n  waterwheel collection shard --hashed --yes",
		Args:    noArguments,
	}, func(ctx context.Context, with collections, _ []string) error {
		of := func(series string) shardSource { return with.of(series) }
		plan, err := planShards(ctx, of, with.series, hashed)
		if plan.DryRun = told.dryRun; err != nil {
			return err
		}
		return p.edit(ctx, told, nil, &plan, plan.print, func() error { return plan.carryOut(ctx, of) })
	})
	cmd.Flags().BoolVar(&hashed, "hashed", false, "hash the meta, so that neighbouring series spread over the shards")
	told.flags(cmd)
	return cmd
}

// shardSource shards a time series. A collection.TimeSeries implements it.
type shardSource interface {
	// Shardable checks whether the time series can be sharded, and which steps are necessary.
	Shardable(ctx context.Context, byHash bool) (o timeseries.Options, state collection.ShardState, err error)
	// LevelNames returns the names of the time series of its rollups, which use the same shard key.
	LevelNames(ctx context.Context) ([]string, error)
	// Shard shards the time series.
	Shard(ctx context.Context, byHash bool) error
}

// shardPlan is what collection shard does, or would do in a dry run.
type shardPlan struct {
	DryRun      bool                `json:"dryRun"`
	Collections []shardedCollection `json:"collections"`

	hashed bool
}

// shardedCollection is one time series of a shardPlan.
type shardedCollection struct {
	Series string     `json:"collection"`
	Key    string     `json:"key"`
	State  shardState `json:"state"`
}

// shardState is the outcome for a collection, as a word for scripts.
type shardState string

const (
	shardDue  shardState = "to_shard"
	spreadDue shardState = "to_spread"
	shardNow  shardState = "sharded"
	shardDone shardState = "unchanged"
)

// String returns the outcome for people.
func (s shardState) String() string {
	switch s {
	case shardDue:
		return "to be sharded"
	case spreadDue:
		return "is sharded by this key already, its segments are to be spread over the shards"
	case shardDone:
		return "is sharded by this key already"
	}
	return string(s)
}

// planShards examines all time series and their rollups before it changes the first.
func planShards(ctx context.Context, of func(series string) shardSource, series []string, hashed bool) (shardPlan, error) {
	plan := shardPlan{Collections: []shardedCollection{}, hashed: hashed}
	for _, name := range series {
		if err := plan.add(ctx, of, name); err != nil {
			return plan, err
		}
		levels, err := of(name).LevelNames(ctx)
		if err != nil {
			return plan, fmt.Errorf("sharding the rollups of %s: %w", name, err)
		}
		for _, level := range levels {
			if err := plan.add(ctx, of, level); err != nil {
				return plan, err
			}
		}
	}
	return plan, nil
}

// add examines a time series, and adds it to the plan.
func (p *shardPlan) add(ctx context.Context, of func(series string) shardSource, name string) error {
	o, state, err := of(name).Shardable(ctx, p.hashed)
	if err != nil {
		return fmt.Errorf("sharding %s: %w", name, seriesError(name, err))
	}
	key, err := bson.Marshal(collection.ShardKey(o, p.hashed))
	if err != nil {
		return err
	}
	due := map[collection.ShardState]shardState{collection.NotSharded: shardDue, collection.SegmentsUneven: spreadDue, collection.Sharded: shardDone}
	p.Collections = append(p.Collections, shardedCollection{Series: name, Key: collection.KeyText(key), State: due[state]})
	return nil
}

// carryOut shards the time series that are due. After an error the same command continues.
func (p *shardPlan) carryOut(ctx context.Context, of func(series string) shardSource) error {
	for i := range p.Collections {
		one := &p.Collections[i]
		if one.State == shardDone {
			continue
		}
		if err := of(one.Series).Shard(ctx, p.hashed); err != nil {
			if _, passes := errors.AsType[*mongodb.OutageError](err); passes {
				err = fmt.Errorf("%w; run the same command again to continue", err)
			}
			return fmt.Errorf("sharding %s: %w", one.Series, err)
		}
		one.State = shardNow
	}
	return nil
}

func (p *shardPlan) print(w io.Writer) {
	table := text.NewTable(w, "COLLECTION", "SHARD KEY", "")
	for _, one := range p.Collections {
		table.Row(one.Series, one.Key, one.State)
	}
	table.Flush()
}

// shardHashed is the value of init --shard for a hashed key.
const shardHashed = "hashed"

// shardAll shards the collections of the settings.
func shardAll(ctx context.Context, c config.Config, log *slog.Logger, out io.Writer, hashed bool) error {
	database, err := mongodb.Open(ctx, connect.DatabaseOptions(c, log))
	if err != nil {
		return err
	}
	defer connect.CloseDatabase(database)
	of := func(series string) shardSource { return collection.Of(database, series) }
	plan, err := planShards(ctx, of, connect.SeriesOf(c, nil), hashed)
	if err != nil {
		return err
	}
	err = plan.carryOut(ctx, of)
	plan.told(out)
	return err
}

// told prints the results, one line for each time series.
func (p *shardPlan) told(w io.Writer) {
	for _, one := range p.Collections {
		fmt.Fprintf(w, "collection %s: %s, by %s\n", one.Series, one.State, one.Key)
	}
}

// shardingView is the part of the output of collection show about shards.
type shardingView struct {
	// Key is the shard key in Extended JSON. Empty means that the collection is not sharded.
	Key    string                   `json:"key"`
	Chunks []collection.ShardChunks `json:"chunks"`
	// Unnamed are fields of the shard key that writes of buckets do not contain.
	Unnamed []string `json:"unnamed,omitempty"`
	// Uneven reports whether some shards have no segments.
	Uneven bool `json:"segmentsUneven,omitempty"`
}

func newShardingView(s collection.Sharding, o timeseries.Options) *shardingView {
	if !s.Router {
		return nil
	}
	v := &shardingView{Chunks: s.Chunks, Unnamed: s.Unnamed(o.TimeField), Uneven: s.Uneven}
	if s.Key != nil {
		v.Key = collection.KeyText(s.Key)
	}
	return v
}

// String returns it in one line.
func (v shardingView) String() string {
	if v.Key == "" {
		return "no: one shard of the cluster has all buckets"
	}
	var chunks []string
	for _, c := range v.Chunks {
		chunks = append(chunks, fmt.Sprintf("%s %d", c.Shard, c.Chunks))
	}
	told := fmt.Sprintf("by %s, chunks: %s", v.Key, strings.Join(chunks, ", "))
	if len(v.Unnamed) > 0 {
		told += fmt.Sprintf("; writes do not contain %s: while a chunk moves, measurements may be lost or stored twice (docs/sharding.md)",
			strings.Join(v.Unnamed, ", "))
	}
	if v.Uneven {
		told += "; not all shards get segments: `waterwheel collection shard` spreads them"
	}
	return told
}
