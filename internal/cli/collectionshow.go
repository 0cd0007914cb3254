package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"waterwheel/internal/cli/text"
	"waterwheel/internal/collection"
	"waterwheel/internal/mongodb"
	"waterwheel/internal/record"
	"waterwheel/internal/timeseries"
	"waterwheel/internal/words"
	"waterwheel/sink"
)

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

// fillView describes how full the examined buckets of a time series are, and how much is in segments.
type fillView struct {
	Buckets      int64   `json:"buckets"` // number of examined buckets
	Measurements int64   `json:"measurements"`
	All          bool    `json:"all"` // all buckets were examined
	Mean         float64 `json:"mean"`
	P10          int32   `json:"p10"` // a tenth of the buckets has at most this many measurements
	// Segments hold the InSegments measurements until these are in buckets. Ended segments wait for deletion, and their measurements
	// are in buckets. Unfinished buckets belong to unfinished compactions, whose measurements are still in segments.
	Segments   int64 `json:"segments"`
	InSegments int64 `json:"measurementsInSegments"`
	Ended      int64 `json:"endedSegments"`
	Unfinished int64 `json:"unfinishedBuckets"`
	// Bytes is the uncompressed size of one measurement, StorageBytes its size on disk, and IndexBytes its size in indexes. Zero
	// means unknown. They are averages over all buckets and segments.
	Bytes        float64 `json:"bytesPerMeasurement"`
	StorageBytes float64 `json:"storageBytesPerMeasurement"`
	IndexBytes   float64 `json:"indexBytesPerMeasurement"`
	// Oldest is rounded down, as the minimum times of buckets are.
	Oldest time.Time `json:"oldest"`
	Newest time.Time `json:"newest"`
	// Advice says how new buckets would become fuller. Empty means that they are full enough, or that this is unknown.
	Advice string `json:"advice,omitempty"`

	covered, compacted int64 // the sums of sink.Holding.Covered and Compacted
}

// fillOf sums up the examined buckets and segments. Nil means that they have no measurements.
func fillOf(holdings []sink.Holding, size collection.Size) *fillView {
	fill, counts := fillView{All: true}, map[int32]int64{}
	var oldest, newest int64
	for _, h := range holdings {
		fill.Ended, fill.Unfinished, fill.All = fill.Ended+h.Ended, fill.Unfinished+h.Unfinished, fill.All && !h.Cut
		if h.Buckets+h.Segments == 0 {
			continue
		}
		if fill.Buckets+fill.Segments == 0 {
			oldest, newest = h.Oldest, h.Newest
		}
		oldest, newest = min(oldest, h.Oldest), max(newest, h.Newest)
		fill.Buckets, fill.Measurements = fill.Buckets+h.Buckets, fill.Measurements+h.Measurements
		fill.Segments, fill.InSegments = fill.Segments+h.Segments, fill.InSegments+h.InSegments
		fill.covered, fill.compacted = fill.covered+h.Covered, fill.compacted+h.Compacted
		for count, buckets := range h.Counts {
			counts[count] += buckets
		}
	}
	all := fill.Measurements + fill.InSegments
	if all == 0 {
		return nil
	}
	if fill.Buckets > 0 {
		fill.Mean, fill.P10 = float64(fill.Measurements)/float64(fill.Buckets), tenth(counts, fill.Buckets)
	}
	fill.Oldest, fill.Newest = time.UnixMilli(oldest).UTC(), time.UnixMilli(newest).UTC()
	documents := fill.Buckets + fill.Segments + fill.Ended + fill.Unfinished
	if measurements := float64(all) / float64(documents) * float64(size.Documents); measurements > 0 {
		fill.Bytes, fill.StorageBytes = float64(size.Bytes)/measurements, float64(size.StorageBytes)/measurements
		fill.IndexBytes = float64(size.IndexBytes) / measurements
	}
	return &fill
}

// tenth returns the smallest count that a tenth of the buckets does not exceed.
func tenth(counts map[int32]int64, buckets int64) int32 {
	passed := int64(0)
	for _, count := range slices.Sorted(maps.Keys(counts)) {
		if passed += counts[count]; 10*passed >= buckets {
			return count
		}
	}
	return 0
}

// documents describes how many of the documents are buckets and how many segments, as far as that is known.
func (f *fillView) documents(all int64) string {
	switch {
	case f == nil || f.Segments+f.Ended == 0:
		return words.Count(all, "bucket")
	case !f.All:
		return fmt.Sprintf("%d buckets and segments", all)
	}
	return fmt.Sprintf("%s and %s", words.Count(f.Buckets+f.Unfinished, "bucket"), words.Count(f.Segments+f.Ended, "segment"))
}

func (f *fillView) print(head *text.Table, most int32) {
	if f == nil {
		return
	}
	sample := ""
	if !f.All {
		documents := words.Count(f.Buckets, "bucket")
		if segments := f.Segments + f.Ended; segments > 0 {
			documents += " and " + words.Count(segments, "segment")
		}
		sample = fmt.Sprintf(", in a sample of %s", documents)
	}
	if f.Segments+f.Ended+f.Unfinished > 0 {
		segments := fmt.Sprintf("%d with %s that %s not in buckets yet, %d more %s for deletion", f.Segments, words.Count(f.InSegments, "measurement"),
			words.Form(f.InSegments, "is", "are"), f.Ended, words.Form(f.Ended, "waits", "wait"))
		if f.Unfinished > 0 {
			segments += "; " + words.Count(f.Unfinished, "bucket") + words.Form(f.Unfinished, " is", " are") + " being made from segments"
		}
		head.Row("Segments", segments+sample)
	}
	head.Row("Fill", fmt.Sprintf("%.1f measurements per bucket, a tenth of the buckets has %d or fewer, %d is the maximum%s", f.Mean, f.P10, most, sample))
	bytes := fmt.Sprintf("%.1f B", f.Bytes)
	if f.StorageBytes > 0 {
		bytes += fmt.Sprintf(", %.1f B on disk, %.1f B in indexes", f.StorageBytes, f.IndexBytes)
	}
	head.Row("Per measurement", bytes+sample)
	if f.Advice != "" {
		head.Row("Advice", f.Advice)
	}
	head.Row("Times", fmt.Sprintf("%s (rounded down) to %s%s", text.Time(f.Oldest), text.Time(f.Newest), sample))
}

// These are limits for advice on how buckets become fuller.
const (
	judgedBuckets = 20 // fewer buckets do not represent all
	poorlyFilled  = 10 // a bucket is poorly filled if it holds less than its maximum divided by this
	worthwhile    = 2  // advice must increase the measurements in a bucket by this factor
)

// advise determines how new buckets would become fuller, from the contents of the examined ones and the time they cover. If a
// series has more measurements in the span of a bucket than in its buckets, the advice is a longer COMPACT_INTERVAL. Otherwise it
// is a coarser granularity.
func (f *fillView) advise(of bucketingView, most int32, interval time.Duration) {
	if f == nil || f.Buckets < judgedBuckets || f.Mean*poorlyFilled >= float64(most) {
		return
	}
	span := time.Duration(of.MaxSpanSeconds) * time.Second
	within := 1.0 // measurements of a series within a span
	if f.covered > 0 {
		within += float64(f.Measurements-f.Buckets) * float64(span.Milliseconds()) / float64(f.covered)
	}
	made := 2*f.compacted > f.Buckets // most buckets are made of segments
	switch {
	case made && interval < span && within >= worthwhile*f.Mean:
		f.Advice = fmt.Sprintf("buckets are poorly filled, because each holds only the measurements of one COMPACT_INTERVAL (%s): an interval of %s would fill them with about %.0f measurements",
			words.Span(interval), words.Span(min(span, longestCompaction)), min(float64(most), within))
	case within < worthwhile*f.Mean:
		f.Advice = coarser(of, f.Mean, most)
		if f.Advice != "" && made {
			f.Advice += "; set COMPACT_INTERVAL to the same length"
		}
	}
}

// longestCompaction is the largest COMPACT_INTERVAL.
const longestCompaction = 24 * time.Hour

// coarser advises the command that lets buckets span more time: the smallest step that fills them well, or else the largest there
// is.
func coarser(of bucketingView, mean float64, most int32) string {
	advice := ""
	for _, g := range []timeseries.Granularity{timeseries.Minutes, timeseries.Hours} {
		to, err := timeseries.Options{TimeField: "time", Granularity: g}.Normalize()
		if err != nil || to.MaxSpanSeconds <= of.MaxSpanSeconds {
			continue
		}
		command := "set-granularity " + string(g)
		if of.Granularity == "" { // custom bucketing may begin at other multiples
			command = fmt.Sprintf("set-span %s", spanOf(to.MaxSpanSeconds))
		}
		filled := min(float64(most), mean*float64(to.MaxSpanSeconds)/float64(of.MaxSpanSeconds))
		advice = fmt.Sprintf("buckets are poorly filled, because their time span is short: `waterwheel collection %s` would fill new ones with about %.0f measurements, "+
			"and cannot be undone", command, filled)
		if 2*filled >= float64(most) {
			break
		}
	}
	return advice
}
