package cli

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"waterwheel/internal/cli/text"
	"waterwheel/internal/words"
	"waterwheel/sink"
)

// CollectionView is what collection show tells of a time series.
type CollectionView struct {
	Name               string         `json:"name"`
	Version            int32          `json:"version"` // of the options: one more with every change
	TimeField          string         `json:"timeField"`
	MetaField          string         `json:"metaField,omitempty"`
	Bucketing          BucketingView  `json:"bucketing"`
	ExpireAfterSeconds int64          `json:"expireAfterSeconds"` // 0: never
	View               sink.ViewState `json:"view"`
	MaxCount           int32          `json:"bucketMaxCount"` // of the settings
	// Size is the server's own figures, of all documents, which are buckets and segments.
	sink.Size
	// Fill is what the buckets looked at say of all; nil: there are none.
	Fill *FillView `json:"fill,omitempty"`
	// Indexes are those of the buckets, in the terms of measurements.
	Indexes IndexesView `json:"indexes"`
	// Newest is how many buckets and segments of a partition were looked at, at most; 0: all.
	Newest     int64           `json:"newest"`
	Partitions []HeldPartition `json:"partitions"`
}

// HeldPartition is what a collection holds of one source partition, and the claim on it.
type HeldPartition struct {
	Topic     string `json:"topic,omitempty"`
	TopicID   string `json:"topicId,omitempty"` // empty: buckets without source, which no consumer touches
	Partition int32  `json:"partition"`
	sink.Holding
	Claim *ClaimView `json:"claim,omitempty"`

	foreign bool
}

// ClaimView is a partition document.
type ClaimView struct {
	ClusterID string    `json:"clusterId"`
	Group     string    `json:"group"`
	Token     string    `json:"token"` // another one with every claim
	Released  bool      `json:"released"`
	Owner     string    `json:"owner"`
	At        time.Time `json:"at,omitzero"`
	Start     int64     `json:"start"` // offset from which its owner read
	WaitMs    int64     `json:"waitMs"`
}

func (h HeldPartition) compare(other HeldPartition) int {
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
	expiry, view, meta := "never", "none", "none, it is a single series"
	if v.ExpireAfterSeconds > 0 {
		expiry = "after " + (time.Duration(v.ExpireAfterSeconds) * time.Second).String()
	}
	if v.View.Kind != sink.ViewNone {
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
	v.Fill.print(head, v.MaxCount)
	head.Flush()
	fmt.Fprintln(w)
	v.printIndexes(w)
	fmt.Fprintln(w)
	if len(v.Partitions) == 0 {
		fmt.Fprintln(w, "It holds nothing, and no partition is claimed.")
		return
	}
	v.printPartitions(w, now)
}

// size is the server's figures; not every server knows those on disk.
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
	segments := slices.ContainsFunc(v.Partitions, func(h HeldPartition) bool { return h.Segments+h.Ended > 0 })
	if segments {
		titles = slices.Insert(titles, 6, "SEGMENTS", "STAGED", "ENDED")
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
			row = slices.Insert(row, 6, any(fmt.Sprint(h.Segments, more)), any(fmt.Sprint(h.Staged, more)), any(fmt.Sprint(h.Ended, more)))
		}
		table.Row(row...)
	}
	table.Flush()
	if cut {
		fmt.Fprintf(w, "\n+ only the %s with the largest offsets %s looked at; --buckets 0 looks at all.\n",
			words.Form(v.Newest, "bucket or segment", fmt.Sprint(v.Newest, " buckets and segments")), words.Form(v.Newest, "was", "were"))
	}
}

func (h HeldPartition) name() string {
	if h.foreign {
		return "(no source)"
	}
	return fmt.Sprintf("%s/%d", h.Topic, h.Partition)
}

func (h HeldPartition) offsets() string {
	if h.Last < 0 {
		return text.Unknown
	}
	return fmt.Sprintf("%d–%d", h.First, h.Last)
}

// words are the cells of a claim, with the beginning of its token.
func (c *ClaimView) words(now time.Time) (group, owner, token, state string) {
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
