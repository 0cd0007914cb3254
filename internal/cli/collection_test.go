package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"waterwheel/internal/claim"
	"waterwheel/internal/cli/text"
	"waterwheel/internal/collection"
	"waterwheel/internal/kafka"
	"waterwheel/internal/timeseries"
	"waterwheel/sink"
)

// claimTable implements claimStore and groupStates in memory.
type claimTable struct {
	documents []sink.PartitionDocument
	members   map[string]int
	racing    string // id of a document that changes before it is taken over
	taken     []string
}

// Partitions implements claimStore.
func (c *claimTable) Partitions(context.Context) ([]sink.PartitionDocument, error) {
	return slices.Clone(c.documents), nil
}

// TakeOver implements claimStore.
func (c *claimTable) TakeOver(_ context.Context, seen sink.PartitionDocument, group string) (bool, error) {
	if seen.ID == c.racing {
		return false, nil
	}
	i := slices.Index(c.documents, seen)
	if i < 0 {
		return false, errors.New("a document that is not there")
	}
	c.documents[i].Group, c.documents[i].Released = group, false
	c.taken = append(c.taken, seen.ID)
	return true, nil
}

// Members implements groupStates.
func (c *claimTable) Members(_ context.Context, group string) ([]kafka.Member, error) {
	return make([]kafka.Member, c.members[group]), nil
}

func claimedBy(cluster string, partition int32, group string) sink.PartitionDocument {
	return sink.PartitionDocument{
		ID: fmt.Sprintf("%s/events/%d", cluster, partition), ClusterID: cluster, Topic: "events", Partition: partition,
		Document: claim.Document{Found: true, Group: group, Claim: [16]byte{1, byte(partition)}, Released: true, Owner: "host"},
	}
}

func TestTakeoverGivesOnlyWhatIsDead(t *testing.T) {
	documents := []sink.PartitionDocument{
		claimedBy("c", 0, "old"), claimedBy("c", 1, "older"), claimedBy("c", 2, "new"), claimedBy("d", 0, "old"), claimedBy("c", 3, ""),
	}
	for name, c := range map[string]struct {
		members map[string]int
		racing  string
		dryRun  bool
		states  []takeoverState
		err     string
	}{
		"all dead":   {states: []takeoverState{takeoverDone, takeoverDone, takeoverNotNeeded, takeoverForeign, takeoverDamaged}},
		"a dry run":  {dryRun: true, states: []takeoverState{takeoverDue, takeoverDue, takeoverNotNeeded, takeoverForeign, takeoverDamaged}},
		"new lives":  {members: map[string]int{"new": 2}, states: []takeoverState{takeoverDone, takeoverDone, takeoverNotNeeded, takeoverForeign, takeoverDamaged}},
		"one lives":  {members: map[string]int{"older": 3}, err: `"older" (3 members)`, states: []takeoverState{takeoverDue, takeoverLiving, takeoverNotNeeded, takeoverForeign, takeoverDamaged}},
		"one claims": {racing: "c/events/0", err: "1 claim was changed", states: []takeoverState{takeoverMissed, takeoverDone, takeoverNotNeeded, takeoverForeign, takeoverDamaged}},
	} {
		table := &claimTable{documents: slices.Clone(documents), members: c.members, racing: c.racing}
		view, err := takeover{claims: func(string) claimStore { return table }, groups: table, clusterID: "c", to: "new", dryRun: c.dryRun}.run(t.Context(), []string{"events"})
		if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: error %v, want %q", name, err, c.err)
		}
		for i, one := range view.Partitions {
			if one.State != c.states[i] {
				t.Errorf("%s: %s: %q, want %q", name, one.seen.ID, one.State, c.states[i])
			}
			if changed := table.documents[i].Group != documents[i].Group; changed != (one.State == takeoverDone) {
				t.Errorf("%s: %s is %q and changed: %v", name, one.seen.ID, one.State, changed)
			}
		}
	}
}

func TestTakeoverSaysWhatItDid(t *testing.T) {
	table := &claimTable{documents: []sink.PartitionDocument{claimedBy("c", 7, "old\x1b[2J")}}
	job := takeover{claims: func(string) claimStore { return table }, groups: table, clusterID: "c", to: "new", dryRun: true}
	for _, want := range []string{"would take over 1 partition.", "The group \"new\" has taken over 1 partition.", "belongs to the group already"} {
		view, err := job.run(t.Context(), []string{"events"})
		if err != nil {
			t.Fatal(err)
		}
		var out, asJSON bytes.Buffer
		view.print(&out)
		if err := text.WriteJSON(&asJSON, view); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(out.String(), want) || !strings.Contains(out.String(), "events/7") || strings.Contains(out.String(), "\x1b") {
			t.Errorf("%q is not in:\n%s", want, out.String())
		}
		var back takeoverView
		if err := json.Unmarshal(asJSON.Bytes(), &back); err != nil || len(back.Partitions) != 1 || back.Partitions[0].State != view.Partitions[0].State {
			t.Errorf("%v in %s", err, asJSON.String())
		}
		job.dryRun = false
	}
	if len(table.taken) != 1 {
		t.Errorf("taken: %v", table.taken)
	}
}

func TestCollectionFlags(t *testing.T) {
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"collection"}, "needs one of its commands"},
		{[]string{"collection", "set-granularity"}, "seconds, minutes or hours"},
		{[]string{"collection", "set-granularity", "days"}, `"days"`},
		{[]string{"collection", "set-granularity", ""}, "seconds, minutes or hours"},
		{[]string{"collection", "set-span"}, "a duration of whole seconds, such as 36h or 30d), but got 0"},
		{[]string{"collection", "set-span", "none"}, `"none" is not a duration`},
		{[]string{"collection", "set-span", "500ms"}, `"500ms" is not a duration`},
		{[]string{"collection", "set-expiry", "0s"}, `"0s" is not a duration of whole seconds, such as 36h or 30d, or none`},
		{[]string{"collection", "set-expiry", "1h", "2h"}, "takes one argument"},
		{[]string{"collection", "expire", "--before", "yesterday"}, `--before is "yesterday"`},
		{[]string{"collection", "expire", "--dry-run", "--yes"}, "cannot be combined"},
		{[]string{"collection", "show", "--buckets", "-1"}, "--buckets is -1"},
		{[]string{"collection", "show", "--topic", "other"}, "not one of KAFKA_TOPICS"},
		{[]string{"collection", "takeover", "--output", "yaml"}, `--output is "yaml": must be table or json`},
		{[]string{"collection", "takeover", "new"}, "takes no arguments"},
	} {
		if code, _, stderr := try(t, settings(), nil, c.args...); code != exitUsage || !strings.Contains(stderr, c.says) {
			t.Errorf("%v: exit code %d, %q", c.args, code, stderr)
		}
	}
}

// shown implements collectionSource in memory.
type shown struct {
	size   collection.Size
	held   []sink.Holding
	claims []sink.PartitionDocument

	sharding collection.Sharding
}

// Definition implements collectionSource.
func (s shown) Definition(context.Context) (timeseries.Options, int32, error) {
	o, err := timeseries.Options{TimeField: "time", MetaField: "meta", Granularity: timeseries.Minutes, ExpireAfterSeconds: 7200}.Normalize()
	return o, 4, err
}

// View implements collectionSource.
func (s shown) View(context.Context, collection.ViewKind) (collection.ViewState, error) {
	return collection.ViewState{Kind: collection.ViewPortable, Why: "documented stages"}, nil
}

// Indexes implements collectionSource.
func (s shown) Indexes(context.Context) (collection.IndexList, error) {
	return collection.IndexList{Indexes: []collection.Index{{Name: "meta_1_control.min.time_1", Kind: collection.IndexOfSeries, Bytes: 2048, Uses: 17}}}, nil
}

// Sharding implements collectionSource.
func (s shown) Sharding(context.Context) (collection.Sharding, error) { return s.sharding, nil }

// Size implements collectionSource.
func (s shown) Size(context.Context) (collection.Size, error) { return s.size, nil }

// Holdings implements collectionSource.
func (s shown) Holdings(context.Context, int64) ([]sink.Holding, error) { return s.held, nil }

// Partitions implements collectionSource.
func (s shown) Partitions(context.Context) ([]sink.PartitionDocument, error) {
	return s.claims, nil
}

func TestShowPutsHoldingsAndClaimsTogether(t *testing.T) {
	now := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	present, former := [16]byte{7}, [16]byte{6}
	claim := func(partition int32, released bool) sink.PartitionDocument {
		d := claimedBy("c", partition, "group")
		d.TopicID, d.Released, d.At = present, released, now.Add(-3*time.Second)
		return d
	}
	from := shown{
		size: collection.Size{Documents: 47, Bytes: 3 << 20, StorageBytes: 1 << 20, IndexBytes: 2048, Compressor: "zstd"},
		held: []sink.Holding{
			{Buckets: 2, Measurements: 5, First: -1, Last: -1},
			{Source: timeseries.Source{Topic: "events", TopicID: former, Partition: 10}, Buckets: 5, Closed: 5, Measurements: 25, First: 0, Last: 24},
			{Source: timeseries.Source{Topic: "events", TopicID: present, Partition: 10}, Buckets: 40, Closed: 30, Measurements: 20_000, First: 100, Last: 30_000, Cut: true, Counts: map[int32]int64{3: 5, 600: 35}, Oldest: 1000, Newest: 2500},
		},
		claims: []sink.PartitionDocument{claim(10, false), claim(9, true)},
	}
	view, err := showCollection(t.Context(), from, "events", collection.ViewAuto, 40)
	if err != nil {
		t.Fatal(err)
	}
	view.MaxCount = 1000
	var out bytes.Buffer
	printCollections(&out, []CollectionView{view}, now)
	rows := []string{
		"(no source)  2 0 5 2.5 0.2 % – – – – not claimed",
		"events/10  5 5 25 5.0 0.5 % 0–24 – – – not claimed",
		"events/9  0 0 0 – – – group host 01090000 released 3s ago",
		"events/10  40+ 30+ 20000+ 500.0 50.0 % 100–30000 group host 010a0000 claimed, document written 3s ago",
	}
	at := 0
	printed := strings.Join(strings.Fields(out.String()), " ")
	for _, row := range append([]string{
		"events (options version 4)", "minutes (a bucket spans 24h)", "after 2h", "View events, portable: documented stages", "Size 47 buckets, 3.0 MiB, 1.0 MiB on disk (zstd), indexes 2.0 KiB",
		"Fill 426.2 measurements per bucket, a tenth of the buckets has 3 or fewer, 1000 is the maximum, in a sample of 47 buckets",
		"Per measurement 157.1 B, 52.4 B on disk, 0.1 B in indexes, in a sample of 47 buckets",
		"Times 1970-01-01T00:00:00.000Z (rounded down) to 1970-01-01T00:00:02.500Z, in a sample of 47 buckets",
		"meta_1_control.min.time_1 series 2.0 KiB 17",
	}, rows...) {
		row = strings.Join(strings.Fields(row), " ")
		i := strings.Index(printed[at:], row)
		if i < 0 {
			t.Fatalf("%q is not there, or in another order:\n%s", row, out.String())
		}
		at += i
	}
	if !strings.Contains(printed[at:], "only the 40 buckets") {
		t.Errorf("it is not said that buckets were left out:\n%s", out.String())
	}
}

func TestShowTellsOfSegments(t *testing.T) {
	of := func(partition int32) timeseries.Source {
		return timeseries.Source{Topic: "events", TopicID: [16]byte{7}, Partition: partition}
	}
	from := shown{
		size: collection.Size{Documents: 20, Bytes: 4000},
		held: []sink.Holding{
			{Source: of(1), Segments: 2, InSegments: 70, First: 3, Last: 99, Oldest: 1000, Newest: 9000},
			{
				Source: of(2), Buckets: 4, Closed: 4, Measurements: 40, Segments: 1, InSegments: 5, Ended: 3, Unfinished: 6,
				Last: 50, Oldest: 2000, Newest: 3000, Counts: map[int32]int64{10: 4}, Cut: true,
			},
			{Source: of(3), Ended: 4, First: -1, Last: -1},
		},
	}
	view, err := showCollection(t.Context(), from, "events", collection.ViewAuto, 14)
	if err != nil {
		t.Fatal(err)
	}
	view.MaxCount = 20
	var out bytes.Buffer
	printCollections(&out, []CollectionView{view}, time.Now())
	printed := strings.Join(strings.Fields(out.String()), " ")
	for _, want := range []string{
		"Size 20 buckets and segments, 3.9 KiB", "Segments 3 with 75 measurements that are not in buckets yet, 7 more wait for deletion; 6 buckets are being made from segments, " +
			"in a sample of 4 buckets and 10 segments Fill 10.0 measurements per bucket",
		"Per measurement 34.8 B", // of 20 documents, with 115 measurements in the 20 that were read
		"Times 1970-01-01T00:00:01.000Z (rounded down) to 1970-01-01T00:00:09.000Z",
		"FILLED SEGMENTS IN SEGMENTS ENDED OFFSETS",
		"events/1 0 0 0 – – 2 70 0 3–99 ",
		"events/2 4+ 4+ 40+ 10.0 50.0 % 1+ 5+ 3+ 0–50 ",
		"events/3 0 0 0 – – 0 0 4 – ",
	} {
		if !strings.Contains(printed, want) {
			t.Errorf("%q is not there:\n%s", want, out.String())
		}
	}
	encoded, err := json.Marshal(view)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"segments":1,"measurementsInSegments":5,"endedSegments":3,"unfinishedBuckets":6`, `"segments":3,"measurementsInSegments":75,"endedSegments":7`} {
		if !strings.Contains(string(encoded), want) {
			t.Errorf("%s is not in %s", want, encoded)
		}
	}
}

// TestShowCountsSegmentsAsSegments checks this although the server's count of documents does not distinguish them.
func TestShowCountsSegmentsAsSegments(t *testing.T) {
	from := shown{size: collection.Size{Documents: 8, Bytes: 4000}, held: []sink.Holding{
		{Source: timeseries.Source{Topic: "events", TopicID: [16]byte{7}}, Buckets: 3, Measurements: 30, Segments: 1, InSegments: 5, Ended: 3, Unfinished: 1},
	}}
	view, err := showCollection(t.Context(), from, "events", collection.ViewAuto, 0)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	printCollections(&out, []CollectionView{view}, time.Now())
	if !strings.Contains(out.String(), "4 buckets and 4 segments, 3.9 KiB") {
		t.Error(out.String())
	}
	encoded, err := json.Marshal(view)
	if err != nil || !strings.Contains(string(encoded), `"documents":8,"bytes":4000`) {
		t.Errorf("%v in %s", err, encoded)
	}
}

// TestShowAdvisesHowBucketsBecomeFuller checks that the advised setting is the one that limits the buckets.
func TestShowAdvisesHowBucketsBecomeFuller(t *testing.T) {
	hour := time.Hour.Milliseconds()
	seconds := bucketingView{Granularity: timeseries.Seconds, MaxSpanSeconds: 3600}
	for name, c := range map[string]struct {
		of        bucketingView
		buckets   int64
		each      int64 // number of measurements
		covers    int64 // milliseconds
		compacted bool
		interval  time.Duration
		want      string
	}{
		"one every six minutes": {of: seconds, buckets: 100, each: 10, covers: hour * 9 / 10, want: "`waterwheel collection set-granularity hours` would fill new ones with about 1000 measurements"},
		"one a minute":          {of: seconds, buckets: 100, each: 60, covers: hour * 59 / 60, want: "`waterwheel collection set-granularity minutes` would fill new ones with about 1000"},
		"one an hour":           {of: seconds, buckets: 100, each: 1, covers: 30_000, want: "`waterwheel collection set-granularity hours` would fill new ones with about 720"},
		"too few to judge by":   {of: seconds, buckets: 19, each: 10, covers: hour * 9 / 10},
		"filled well enough":    {of: seconds, buckets: 100, each: 100, covers: hour * 99 / 100},
		"many in a flush":       {of: seconds, buckets: 100, each: 64, covers: 5000},
		"the coarsest":          {of: bucketingView{Granularity: timeseries.Hours, MaxSpanSeconds: 2592000}, buckets: 100, each: 10, covers: 600 * hour},
		"a custom span":         {of: bucketingView{MaxSpanSeconds: 7200, RoundingSeconds: 7200}, buckets: 100, each: 10, covers: hour * 18 / 10, want: "`waterwheel collection set-span 30d` would"},
		"of segments":           {of: seconds, buckets: 100, each: 10, covers: hour / 60 * 9, compacted: true, interval: 10 * time.Minute, want: "one COMPACT_INTERVAL (10m): an interval of 1h would fill them with about 61 measurements"},
		"of segments, rarely":   {of: seconds, buckets: 100, each: 60, covers: hour * 59 / 60, compacted: true, interval: 2 * time.Hour, want: "set-granularity minutes` would fill new ones with about 1000 measurements, and cannot be undone; set COMPACT_INTERVAL"},
	} {
		h := sink.Holding{Buckets: c.buckets, Measurements: c.buckets * c.each, Covered: c.buckets * c.covers, Counts: map[int32]int64{int32(c.each): c.buckets}}
		if c.compacted {
			h.Compacted = c.buckets
		}
		fill := fillOf([]sink.Holding{h}, collection.Size{})
		fill.advise(c.of, 1000, c.interval)
		if (fill.Advice == "") != (c.want == "") || !strings.Contains(fill.Advice, c.want) {
			t.Errorf("%s: %q, want %q", name, fill.Advice, c.want)
		}
		var out bytes.Buffer
		head := text.NewTable(&out)
		fill.print(head, 1000)
		head.Flush()
		if strings.Contains(out.String(), "Advice") != (c.want != "") {
			t.Errorf("%s: %s", name, out.String())
		}
	}
}

// definitions are time series in memory.
type definitions map[string]timeseries.Options

// definedSeries is an optionStore in memory.
type definedSeries struct {
	all    definitions
	series string
}

// SetBucketing implements optionStore.
func (d definedSeries) SetBucketing(_ context.Context, to timeseries.Options) (before, after timeseries.Options, err error) {
	to.ExpireAfterSeconds = d.all[d.series].ExpireAfterSeconds
	return d.all.change(d.series, to)
}

// SetExpiry implements optionStore.
func (d definedSeries) SetExpiry(_ context.Context, seconds int64) (before, after timeseries.Options, err error) {
	return d.all.change(d.series, timeseries.Options{ExpireAfterSeconds: seconds})
}

func (d definitions) change(series string, to timeseries.Options) (before, after timeseries.Options, err error) {
	before, ok := d[series]
	if !ok {
		return before, after, collection.ErrNotSetUp
	}
	if after, err = before.Change(to); err == nil {
		d[series] = after
	}
	return before, after, err
}

func TestOptionCommandsTellEachChange(t *testing.T) {
	normal := func(o timeseries.Options) timeseries.Options {
		o.TimeField = "time"
		o, err := o.Normalize()
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	d := definitions{
		"a": normal(timeseries.Options{}), "b": normal(timeseries.Options{Granularity: timeseries.Minutes}),
		"c": normal(timeseries.Options{MaxSpanSeconds: 600, RoundingSeconds: 600}), "d": normal(timeseries.Options{Granularity: timeseries.Hours}),
	}
	for _, c := range []struct {
		command optionCommand
		args    []string
		series  []string
		want    []string
		err     string
	}{
		{setGranularityCommand(), []string{"minutes"}, []string{"a", "b", "c", "d", "e"}, []string{
			"a: minutes (a bucket spans 24h), measurements are kept for ever; before: seconds (a bucket spans 1h), measurements are kept for ever. " +
				"Set MONGODB_GRANULARITY=minutes, ",
			"b: minutes (a bucket spans 24h), measurements are kept for ever, as before. Nothing was changed.",
			"c: minutes (a bucket spans 24h), measurements are kept for ever; before: a bucket spans 10m and begins at a multiple of 10m, ",
		}, "cannot become smaller"},
		{setSpanCommand(), []string{"48h"}, []string{"a"}, []string{
			"a: a bucket spans 2d and begins at a multiple of 2d, measurements are kept for ever; before: minutes (a bucket spans 24h), ",
		}, ""},
		{setExpiryCommand(), []string{"1d12h"}, []string{"a", "e"}, []string{"a: a bucket spans 2d and begins at a multiple of 2d, measurements are deleted after 36h; before: "}, "changing e: "},
		{setExpiryCommand(), []string{"none"}, []string{"a"}, []string{"measurements are kept for ever; before: "}, ""},
	} {
		out := &strings.Builder{}
		changes, err := changeOptions(t.Context(), func(series string) optionStore { return definedSeries{d, series} }, c.series, c.command.change(c.args))
		changes.print(out, c.command.advice)
		if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%v: error %v, want %q", c.args, err, c.err)
		}
		for i, want := range c.want {
			if lines := strings.Split(out.String(), "\n"); len(lines) != len(c.want)+1 || !strings.Contains(lines[i], want) {
				t.Errorf("%v: line %d is not %q:\n%s", c.args, i, want, out.String())
			}
		}
	}
}
