package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"waterwheel/internal/cli/text"
	"waterwheel/internal/record"
	"waterwheel/internal/timeseries"
	"waterwheel/sink"
)

// defaultNewest is how many buckets and segments of a partition show looks at unless told otherwise.
const defaultNewest = 10_000

func (p *Program) collectionShowCommand() *cobra.Command {
	var newest int64
	cmd := p.onCollections(&cobra.Command{
		Use:   "show",
		Short: "Show the options of collections, what they hold of each partition, and who has claimed it",
		Long: "Shows how a collection is defined, which view it has and why, how large it is and how full its buckets are (and which setting\n" +
			"would fill poorly filled ones), its indexes,\n" +
			"how many buckets, segments and measurements it holds of each source partition, and whose claim stands on that. Staged\n" +
			"measurements are in segments only, and wait for their buckets; segments that ended wait for their deletion. Of a\n" +
			"partition with more buckets and segments than --buckets only those with the largest offsets are looked at, and the\n" +
			"output says so: it costs little on a collection of any size.",
		Args: noArguments,
		PreRunE: func(*cobra.Command, []string) error {
			if newest < 0 {
				return usageError{fmt.Errorf("--buckets is %d: 1 or more, or 0 for all", newest)}
			}
			return nil
		},
	}, func(ctx context.Context, with collections, _ []string) error {
		views := []CollectionView{}
		for _, name := range with.series {
			view, err := showCollection(ctx, with.database, name, newest)
			if err != nil {
				return err
			}
			view.MaxCount = with.config.Bucket.MaxCount
			view.Fill.advise(view.Bucketing, view.MaxCount, with.config.Flush.CompactInterval)
			views = append(views, view)
		}
		return p.show(views, func(w io.Writer) { printCollections(w, views, time.Now()) })
	})
	cmd.Flags().Int64Var(&newest, "buckets", defaultNewest, "look at so many buckets and segments of each partition at most; 0: all")
	return cmd
}

// claimSource is where claims are read; *sink.Database is one.
type claimSource interface {
	// Partitions returns the partition documents of a time series.
	Partitions(ctx context.Context, series string) ([]sink.PartitionDocument, error)
}

// collectionSource is where a collection is looked at; *sink.Database is one.
type collectionSource interface {
	claimSource
	Definition(ctx context.Context, series string) (timeseries.Options, int32, error)
	View(ctx context.Context, series string) (sink.ViewState, error)
	Size(ctx context.Context, series string) (sink.Size, error)
	Holdings(ctx context.Context, series string, newest int64) ([]sink.Holding, error)
	Indexes(ctx context.Context, series string) (sink.IndexList, error)
}

// showCollection looks at a collection.
func showCollection(ctx context.Context, from collectionSource, name string, newest int64) (CollectionView, error) {
	view := CollectionView{Name: name, Newest: newest, Partitions: []HeldPartition{}}
	definition, version, err := from.Definition(ctx, name)
	if errors.Is(err, sink.ErrNotSetUp) {
		return view, fmt.Errorf("there is no time series %s yet: `waterwheel init` makes it, and so does `waterwheel run`", name)
	}
	if err != nil {
		return view, err
	}
	view.TimeField, view.MetaField, view.ExpireAfterSeconds = definition.TimeField, definition.MetaField, definition.ExpireAfterSeconds
	view.Bucketing, view.Version = bucketingView(definition), version
	if view.View, err = from.View(ctx, name); err != nil {
		return view, err
	}
	if view.Size, err = from.Size(ctx, name); err != nil {
		return view, err
	}
	holdings, err := from.Holdings(ctx, name, newest)
	if err != nil {
		return view, err
	}
	view.Fill = fillOf(holdings, view.Size)
	indexes, err := from.Indexes(ctx, name)
	if err != nil {
		return view, err
	}
	view.Indexes = indexesView(name, indexes, nil)
	claims, err := from.Partitions(ctx, name)
	if err != nil {
		return view, err
	}
	view.Partitions = append(view.Partitions, joined(holdings, claims)...)
	return view, nil
}

// joined puts what is held of partitions and the claims on them together, in the order of topics and partitions.
func joined(holdings []sink.Holding, claims []sink.PartitionDocument) []HeldPartition {
	var all []HeldPartition
	for _, h := range holdings {
		one := HeldPartition{Topic: h.Source.Topic, Partition: h.Source.Partition, Holding: h}
		if one.foreign = h.Source == (timeseries.Source{}); !one.foreign {
			one.TopicID = record.FormatTopicID(h.Source.TopicID)
		}
		all = append(all, one)
	}
	for _, d := range claims {
		i := slices.IndexFunc(all, func(h HeldPartition) bool {
			return !h.foreign && h.Claim == nil && h.TopicID == record.FormatTopicID(d.TopicID) && h.Partition == d.Partition
		})
		if i < 0 {
			i = len(all)
			none := sink.Holding{First: -1, Last: -1}
			all = append(all, HeldPartition{Topic: d.Topic, TopicID: record.FormatTopicID(d.TopicID), Partition: d.Partition, Holding: none})
		}
		all[i].Claim = &ClaimView{
			ClusterID: d.ClusterID, Group: d.Group, Token: text.UUID(d.Claim), Released: d.Released, Owner: d.Owner, At: d.At,
			Start: d.Start, WaitMs: d.Wait.Milliseconds(),
		}
	}
	slices.SortStableFunc(all, HeldPartition.compare)
	return all
}
