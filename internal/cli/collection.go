package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"waterwheel/config"
	"waterwheel/internal/cli/text"
	"waterwheel/internal/collection"
	"waterwheel/internal/connect"
	"waterwheel/internal/mongodb"
	"waterwheel/internal/record"
	"waterwheel/internal/timeseries"
	"waterwheel/internal/words"
	"waterwheel/sink"
)

func (p *Program) collectionCommand() *cobra.Command {
	return family("collection", "Show and change the collections of measurements",
		"MongoDB stores a time series as its buckets, the claims of the consumers that write them, and its options. These\n"+
			"commands work on the time series of KAFKA_TOPICS. Consumers may keep running.",
		p.collectionShowCommand(), p.onOptions(setGranularityCommand()), p.onOptions(setSpanCommand()), p.onOptions(setExpiryCommand()),
		p.expireCommand(), p.takeoverCommand(), p.shardCommand(),
		p.indexesCommand(), p.createIndexCommand(), p.dropIndexCommand(), p.hideIndexCommand(true), p.hideIndexCommand(false),
		p.updateMetaCommand(), p.deleteMetaCommand())
}

// onCollections makes cmd work on the time series that its flags select.
func (p *Program) onCollections(cmd *cobra.Command, work func(ctx context.Context, with collections, args []string) error) *cobra.Command {
	var topics []string
	cmd.Flags().StringSliceVar(&topics, "topic", nil, "only the time series of these topics of KAFKA_TOPICS, comma-separated")
	p.outputFlag(cmd, "table")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, log, err := p.commandSettings(cmd.Context(), "warn")
		if err != nil {
			return err
		}
		if err := knownTopics(c, topics...); err != nil {
			return err
		}
		database, err := mongodb.Open(cmd.Context(), connect.DatabaseOptions(c, log))
		if err != nil {
			return err
		}
		defer connect.CloseDatabase(database)
		return work(cmd.Context(), collections{config: c, log: log, database: database, series: connect.SeriesOf(c, topics)}, args)
	}
	return cmd
}

// collections are time series, with the settings and the database.
type collections struct {
	config   config.Config
	log      *slog.Logger
	database *mongodb.Database
	series   []string
}

// timeSeries is one time series: its set-up, and its contents.
type timeSeries struct {
	collection.TimeSeries
	sink.Contents
	name     string
	database *mongodb.Database
}

// of returns the time series of a name.
func (c collections) of(series string) timeSeries {
	return timeSeries{collection.Of(c.database, series), sink.ContentsOf(c.database, series), series, c.database}
}

// eachSeries calls work for one time series after the other, until one fails, and returns the results.
func eachSeries[T any](with collections, work func(s timeSeries) (T, error)) ([]T, error) {
	all := []T{} // an empty list in JSON
	for _, name := range with.series {
		one, err := work(with.of(name))
		if err != nil {
			return all, err
		}
		all = append(all, one)
	}
	return all, nil
}

// options returns the options of the time series. It returns an error if the time series does not exist.
func (s timeSeries) options(ctx context.Context) (timeseries.Options, error) {
	options, _, err := s.Definition(ctx)
	return options, seriesError(s.name, err)
}

// seriesError says how to create a time series that does not exist.
func seriesError(name string, err error) error {
	if errors.Is(err, collection.ErrNotSetUp) {
		return fmt.Errorf("there is no time series %s yet: `waterwheel init` and `waterwheel run` create it", name)
	}
	return err
}

// bucketingView is how a time series divides time into buckets.
type bucketingView struct {
	Granularity     timeseries.Granularity `json:"granularity,omitempty"`
	MaxSpanSeconds  int32                  `json:"bucketMaxSpanSeconds"`
	RoundingSeconds int32                  `json:"bucketRoundingSeconds,omitempty"` // custom bucketing only
}

func newBucketingView(o timeseries.Options) bucketingView {
	return bucketingView{Granularity: o.Granularity, MaxSpanSeconds: o.MaxSpanSeconds, RoundingSeconds: o.RoundingSeconds}
}

// String returns it in the terms of the settings.
func (v bucketingView) String() string {
	if v.Granularity != "" {
		return fmt.Sprintf("%s (a bucket spans %s)", v.Granularity, spanOf(v.MaxSpanSeconds))
	}
	return fmt.Sprintf("a bucket spans %s and begins at a multiple of %s", spanOf(v.MaxSpanSeconds), spanOf(v.RoundingSeconds))
}

// spanOf formats seconds as people write a length of time.
func spanOf[N int32 | int64](seconds N) string {
	return words.Span(time.Duration(seconds) * time.Second)
}

// defaultNewest is how many buckets and segments of a partition show examines by default.
const defaultNewest = 10_000

func (p *Program) collectionShowCommand() *cobra.Command {
	var newest int64
	cmd := p.onCollections(&cobra.Command{
		Use:   "show",
		Short: "Show the options of collections, and the contents and the owner of each partition",
		Long: "Shows the definition of a collection, its view and the reason for it, its size, its indexes, and how full its buckets are.\n" +
			"If buckets are poorly filled, it names the setting that would fill them better.\n\n" +
			"For each source partition it shows the number of buckets, segments and measurements, and the consumer that has claimed\n" +
			"the partition. IN SEGMENTS counts the measurements that are not in buckets yet. Ended segments wait for deletion.\n" +
			"If a partition has more than --buckets buckets and segments, the command reads only those with the largest offsets, and\n" +
			"says so. Therefore it is cheap on a collection of any size.",
		Args: noArguments,
		PreRunE: func(*cobra.Command, []string) error {
			if newest < 0 {
				return usageError{fmt.Errorf("--buckets is %d: it must be 1 or more, or 0 for all", newest)}
			}
			return nil
		},
	}, func(ctx context.Context, with collections, _ []string) error {
		views, err := eachSeries(with, func(s timeSeries) (CollectionView, error) {
			view, err := showCollection(ctx, s, s.name, collection.ViewKind(with.config.MongoDB.View), newest)
			if err == nil {
				view.MaxCount = with.config.Bucket.MaxCount
				view.Fill.advise(view.Bucketing, view.MaxCount, with.config.Flush.CompactInterval)
			}
			return view, err
		})
		if err != nil {
			return err
		}
		return p.show(views, func(w io.Writer) { printCollections(w, views, time.Now()) })
	})
	cmd.Flags().Int64Var(&newest, "buckets", defaultNewest, "maximum number of buckets and segments to read per partition; 0 for all")
	return cmd
}

// claimSource reads the claims on a time series. A sink.Contents implements it.
type claimSource interface {
	// Partitions returns the partition documents of the time series.
	Partitions(ctx context.Context) ([]sink.PartitionDocument, error)
}

// collectionSource reads the state of a collection. A timeSeries implements it.
type collectionSource interface {
	claimSource
	Definition(ctx context.Context) (timeseries.Options, int32, error)
	View(ctx context.Context, asked collection.ViewKind) (collection.ViewState, error)
	Size(ctx context.Context) (collection.Size, error)
	Holdings(ctx context.Context, newest int64) ([]sink.Holding, error)
	Indexes(ctx context.Context) (collection.IndexList, error)
	Sharding(ctx context.Context) (collection.Sharding, error)
}

// showCollection examines a collection. asked is the kind of view in the settings.
func showCollection(ctx context.Context, from collectionSource, name string, asked collection.ViewKind, newest int64) (CollectionView, error) {
	view := CollectionView{Name: name, Newest: newest, Partitions: []heldPartition{}}
	definition, version, err := from.Definition(ctx)
	if err != nil {
		return view, seriesError(name, err)
	}
	view.TimeField, view.MetaField, view.ExpireAfterSeconds = definition.TimeField, definition.MetaField, definition.ExpireAfterSeconds
	view.Bucketing, view.Version = newBucketingView(definition), version
	if view.View, err = from.View(ctx, asked); err != nil {
		return view, err
	}
	if view.Size, err = from.Size(ctx); err != nil {
		return view, err
	}
	sharding, err := from.Sharding(ctx)
	if err == nil {
		view.Sharding = newShardingView(sharding, definition)
	} else if !mongodb.LacksRight(err) { // a right on the database config
		return view, err
	}
	holdings, err := from.Holdings(ctx, newest)
	if err != nil {
		return view, err
	}
	view.Fill = fillOf(holdings, view.Size)
	indexes, err := from.Indexes(ctx)
	if err != nil {
		return view, err
	}
	view.Indexes = newIndexesView(name, indexes, nil)
	claims, err := from.Partitions(ctx)
	if err != nil {
		return view, err
	}
	view.Partitions = append(view.Partitions, joined(holdings, claims)...)
	return view, nil
}

// joined combines the holdings of partitions with the claims on them, in the order of topics and partitions.
func joined(holdings []sink.Holding, claims []sink.PartitionDocument) []heldPartition {
	var all []heldPartition
	for _, h := range holdings {
		one := heldPartition{Topic: h.Source.Topic, Partition: h.Source.Partition, Holding: h}
		if one.foreign = h.Source == (timeseries.Source{}); !one.foreign {
			one.TopicID = record.FormatTopicID(h.Source.TopicID)
		}
		all = append(all, one)
	}
	for _, d := range claims {
		i := slices.IndexFunc(all, func(h heldPartition) bool {
			return !h.foreign && h.Claim == nil && h.TopicID == record.FormatTopicID(d.TopicID) && h.Partition == d.Partition
		})
		if i < 0 {
			i = len(all)
			none := sink.Holding{First: -1, Last: -1}
			all = append(all, heldPartition{Topic: d.Topic, TopicID: record.FormatTopicID(d.TopicID), Partition: d.Partition, Holding: none})
		}
		all[i].Claim = &claimView{
			ClusterID: d.ClusterID, Group: d.Group, Token: text.UUID(d.Claim), Released: d.Released, Owner: d.Owner, At: d.At,
			Start: d.Start, WaitMs: d.Wait.Milliseconds(),
		}
	}
	slices.SortStableFunc(all, heldPartition.compare)
	return all
}

// CollectionView is the output of collection show for a time series.
type CollectionView struct {
	Name               string               `json:"name"`
	Version            int32                `json:"version"` // of the options: it increases by one with every change
	TimeField          string               `json:"timeField"`
	MetaField          string               `json:"metaField,omitempty"`
	Bucketing          bucketingView        `json:"bucketing"`
	ExpireAfterSeconds int64                `json:"expireAfterSeconds"` // Zero means never.
	View               collection.ViewState `json:"view"`
	MaxCount           int32                `json:"bucketMaxCount"` // from the settings
	// Size has the server's figures for all documents, which are buckets and segments.
	collection.Size
	// Sharding is how the buckets are distributed over shards. Null means that the server is not a router, or that this user may
	// not see it.
	Sharding *shardingView `json:"sharding,omitempty"`
	// Fill describes how full the examined buckets are. Nil means that there are none.
	Fill *fillView `json:"fill,omitempty"`
	// Indexes are the indexes of the buckets, in the terms of measurements.
	Indexes indexesView `json:"indexes"`
	// Newest is the maximum number of buckets and segments of a partition that were examined. Zero means all.
	Newest     int64           `json:"newest"`
	Partitions []heldPartition `json:"partitions"`
}

// heldPartition is what a collection holds of one source partition, and the claim on it.
type heldPartition struct {
	Topic     string `json:"topic,omitempty"`
	TopicID   string `json:"topicId,omitempty"` // Empty means buckets without source, which no consumer touches.
	Partition int32  `json:"partition"`
	sink.Holding
	Claim *claimView `json:"claim,omitempty"`

	foreign bool
}

// claimView is a partition document.
type claimView struct {
	ClusterID string    `json:"clusterId"`
	Group     string    `json:"group"`
	Token     string    `json:"token"` // a new one with every claim
	Released  bool      `json:"released"`
	Owner     string    `json:"owner"`
	At        time.Time `json:"at,omitzero"`
	Start     int64     `json:"start"` // offset at which its owner started to read
	WaitMs    int64     `json:"waitMs"`
}

func (h heldPartition) compare(other heldPartition) int {
	return cmp.Or(strings.Compare(h.Topic, other.Topic), strings.Compare(h.TopicID, other.TopicID), cmp.Compare(h.Partition, other.Partition))
}

func printCollections(w io.Writer, views []CollectionView, now time.Time) {
	for i, v := range views {
		if i > 0 {
			fmt.Fprintln(w)
		}
		v.print(w, now)
	}
}

func (v CollectionView) print(w io.Writer, now time.Time) {
	expiry, view, meta := "never", "none", "no meta (a single series)"
	if v.ExpireAfterSeconds > 0 {
		expiry = "after " + spanOf(v.ExpireAfterSeconds)
	}
	if v.View.Kind != collection.ViewNone {
		view = fmt.Sprintf("%s, %s", v.Name, v.View.Kind)
	}
	if v.MetaField != "" {
		meta = v.MetaField
	}
	head := text.NewTable(w)
	head.Row("Collection", fmt.Sprintf("%s (options version %d)", v.Name, v.Version))
	head.Row("Time, meta", v.TimeField+", "+meta)
	head.Row("Granularity", v.Bucketing)
	head.Row("Expires", expiry)
	head.Row("View", view+": "+v.View.Why)
	head.Row("Size", v.size())
	if v.Sharding != nil {
		head.Row("Sharded", v.Sharding)
	}
	v.Fill.print(head, v.MaxCount)
	head.Flush()
	fmt.Fprintln(w)
	v.printIndexes(w)
	fmt.Fprintln(w)
	if len(v.Partitions) == 0 {
		fmt.Fprintln(w, "The collection is empty, and no partition is claimed.")
		return
	}
	v.printPartitions(w, now)
}

// size formats the server's figures. Not every server reports the sizes on disk.
func (v CollectionView) size() string {
	size := fmt.Sprintf("%s, %s", v.Fill.documents(v.Documents), text.Bytes(v.Bytes))
	if v.StorageBytes > 0 {
		size += fmt.Sprintf(", %s on disk", text.Bytes(v.StorageBytes))
		if v.Compressor != "" {
			size += fmt.Sprintf(" (%s)", v.Compressor)
		}
		size += ", indexes " + text.Bytes(v.IndexBytes)
	}
	return size
}

func (v CollectionView) printPartitions(w io.Writer, now time.Time) {
	titles := []string{"PARTITION", "BUCKETS", "CLOSED", "MEASUREMENTS", "PER BUCKET", "FILLED", "OFFSETS", "GROUP", "OWNER", "CLAIM", "STATE"}
	segments := slices.ContainsFunc(v.Partitions, func(h heldPartition) bool { return h.Segments+h.Ended > 0 })
	if segments {
		titles = slices.Insert(titles, 6, "SEGMENTS", "IN SEGMENTS", "ENDED")
	}
	table := text.NewTable(w, titles...)
	cut := false
	for _, h := range v.Partitions {
		more := ""
		if h.Cut {
			more, cut = "+", true
		}
		group, owner, token, state := h.Claim.words(now)
		row := []any{
			h.name(), fmt.Sprint(h.Buckets, more), fmt.Sprint(h.Closed, more), fmt.Sprint(h.Measurements, more),
			ratio(h.Measurements, h.Buckets, "%.1f"), ratio(100*h.Measurements, h.Buckets*int64(v.MaxCount), "%.1f %%"), h.offsets(),
			group, owner, token, state,
		}
		if segments {
			row = slices.Insert(row, 6, any(fmt.Sprint(h.Segments, more)), any(fmt.Sprint(h.InSegments, more)), any(fmt.Sprint(h.Ended, more)))
		}
		table.Row(row...)
	}
	table.Flush()
	if cut {
		fmt.Fprintf(w, "\n+ only the %s with the largest offsets %s read; --buckets 0 reads all.\n",
			words.Form(v.Newest, "bucket or segment", fmt.Sprint(v.Newest, " buckets and segments")), words.Form(v.Newest, "was", "were"))
	}
}

func (h heldPartition) name() string {
	if h.foreign {
		return "(no source)"
	}
	return fmt.Sprintf("%s/%d", h.Topic, h.Partition)
}

func (h heldPartition) offsets() string {
	if h.Last < 0 {
		return text.Unknown
	}
	return fmt.Sprintf("%d–%d", h.First, h.Last)
}

// words returns the cells of a claim, with the beginning of its token.
func (c *claimView) words(now time.Time) (group, owner, token, state string) {
	if c == nil {
		return text.Unknown, text.Unknown, text.Unknown, "not claimed"
	}
	state = "claimed, document written " + text.Ago(now, c.At)
	if c.Released {
		state = "released " + text.Ago(now, c.At)
	}
	return c.Group, c.Owner, c.Token[:8], state
}

func ratio(part, whole int64, format string) string {
	if whole == 0 {
		return text.Unknown
	}
	return fmt.Sprintf(format, float64(part)/float64(whole))
}

// printIndexes lists the indexes with their sizes and uses, as far as the server reports them.
func (v CollectionView) printIndexes(w io.Writer) {
	table := text.NewTable(w, "INDEX", "KIND", "SIZE", "USES")
	for _, i := range v.Indexes.Indexes {
		table.Row(i.Name, i.Kind, i.size(), text.Number(i.Uses))
	}
	table.Flush()
}
