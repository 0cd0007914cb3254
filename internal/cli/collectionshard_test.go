package cli

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/collection"
	"waterwheel/internal/mongodb"
	"waterwheel/internal/timeseries"
)

// shards holds time series in memory.
type shards struct {
	done    map[string]bool
	uneven  string // name of an unevenly sharded time series
	levels  map[string][]string
	refuses string // name of a time series that refuses
	away    bool   // MongoDB does not answer
	sharded []string
}

// shardedSeries implements shardSource in memory.
type shardedSeries struct {
	*shards
	series string
}

func (s *shards) of(series string) shardSource { return shardedSeries{s, series} }

func (s shardedSeries) Shardable(context.Context, bool) (timeseries.Options, collection.ShardState, error) {
	o, err := timeseries.Options{TimeField: "time", MetaField: "meta"}.Normalize()
	if s.series == s.refuses {
		err = collection.ErrArrayMetas
	}
	switch {
	case s.done[s.series]:
		return o, collection.Sharded, err
	case s.series == s.uneven:
		return o, collection.SegmentsUneven, err
	}
	return o, collection.NotSharded, err
}

func (s shardedSeries) LevelNames(context.Context) ([]string, error) { return s.levels[s.series], nil }

func (s shardedSeries) Shard(context.Context, bool) error {
	if s.away {
		return &mongodb.OutageError{Operation: "sharding the collection", Err: errors.New("no primary")}
	}
	s.sharded = append(s.sharded, s.series)
	return nil
}

func TestShardLooksAtAllCollectionsFirst(t *testing.T) {
	s := &shards{done: map[string]bool{"b": true}, levels: map[string][]string{"b": {"b_1m", "b_1h"}, "d": {"c"}}, uneven: "b_1h", refuses: "c"}
	if _, err := planShards(t.Context(), s.of, []string{"a", "b", "c"}, false); !errors.Is(err, collection.ErrArrayMetas) || !strings.Contains(err.Error(), "sharding c") {
		t.Errorf("%v", err)
	}
	if _, err := planShards(t.Context(), s.of, []string{"d"}, false); !errors.Is(err, collection.ErrArrayMetas) || !strings.Contains(err.Error(), "sharding c") {
		t.Errorf("a rollup: %v", err)
	}
	plan, err := planShards(t.Context(), s.of, []string{"a", "b"}, true)
	if err != nil {
		t.Fatal(err)
	}
	if got := plan.Collections[len(plan.Collections)-1].State; got != spreadDue {
		t.Errorf("of uneven segments it says %q", got)
	}
	if err := plan.carryOut(t.Context(), s.of); err != nil || !slices.Equal(s.sharded, []string{"a", "b_1m", "b_1h"}) {
		t.Errorf("%v, %v", s.sharded, err)
	}
	var out bytes.Buffer
	plan.told(&out)
	plan.print(&out)
	for _, says := range []string{
		`collection a: sharded, by {"meta": "hashed", "control.min.time": 1}`, "collection b: is sharded by this key already", "SHARD KEY",
	} {
		if !strings.Contains(out.String(), says) {
			t.Errorf("%q is missing in:\n%s", says, out.String())
		}
	}
}

func TestShardSaysHowToFinish(t *testing.T) {
	s := &shards{away: true}
	plan, err := planShards(t.Context(), s.of, []string{"a"}, false)
	if err != nil {
		t.Fatal(err)
	}
	if err := plan.carryOut(t.Context(), s.of); err == nil || !strings.HasSuffix(err.Error(), "no primary; run the same command again to continue") {
		t.Errorf("after an outage: %v", err)
	}
	s.away = false
	if err := plan.carryOut(t.Context(), s.of); err != nil || !slices.Equal(s.sharded, []string{"a"}) {
		t.Errorf("the second run: %v, %v", s.sharded, err)
	}
}

func TestShardCommandLines(t *testing.T) {
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"collection", "shard", "--dry-run", "--yes"}, "cannot be combined"},
		{[]string{"collection", "shard", "events"}, "takes no arguments"},
		{[]string{"init", "--shard", "zoned"}, `--shard is "zoned": must be ranged or hashed`},
	} {
		if code, _, stderr := try(t, settings(), nil, c.args...); code != exitUsage || !strings.Contains(stderr, c.says) {
			t.Errorf("%v: exit code %d, %q", c.args, code, stderr)
		}
	}
}

func TestShowTellsOfShards(t *testing.T) {
	o, err := timeseries.Options{TimeField: "time", MetaField: "meta"}.Normalize()
	if err != nil {
		t.Fatal(err)
	}
	if v := newShardingView(collection.Sharding{}, o); v != nil {
		t.Errorf("without a router: %+v", v)
	}
	key := func(d bson.D) bson.Raw {
		raw, err := bson.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	chunks := []collection.ShardChunks{{Shard: "a", Chunks: 3}, {Shard: "b", Chunks: 4}}
	for want, s := range map[string]collection.Sharding{
		"no: one shard of the cluster has all buckets": {Router: true},
		"chunks: a 3, b 4":                 {Router: true, Key: key(bson.D{{Key: "meta", Value: "hashed"}}), Chunks: chunks},
		"writes do not contain data.x.0: ": {Router: true, Key: key(bson.D{{Key: "data.x.0", Value: 1}}), Chunks: chunks},
		"not all shards get segments":      {Router: true, Key: key(bson.D{{Key: "meta", Value: 1}}), Chunks: chunks, Uneven: true},
	} {
		if v := newShardingView(s, o); v == nil || !strings.Contains(v.String(), want) {
			t.Errorf("%v, want %q", v, want)
		}
	}
}

func TestInitRefusesAnUnknownKey(t *testing.T) {
	if code, _, stderr := try(t, settings(), nil, "init", "--shard", "range"); code != exitUsage || !strings.Contains(stderr, `--shard is "range": must be ranged or hashed: did you mean ranged?`) {
		t.Errorf("exit code %d, %s", code, stderr)
	}
}
