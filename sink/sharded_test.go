package sink_test

import (
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/bucketer"
	"waterwheel/internal/claim"
	"waterwheel/internal/collection"
	"waterwheel/internal/mongodb"
	"waterwheel/internal/mongodb/mongodbtest"
)

// unkeyed says which part an update or delete of a bucket lacks to reach one shard, with a shard version. Empty means none.
func unkeyed(write bson.Raw) string {
	filter := write.Lookup("q").Document()
	for _, field := range []string{"_id", "meta", "control.min.time"} {
		if filter.Lookup(field).Type == 0 {
			return "the filter lacks " + field
		}
	}
	if multi, _ := write.Lookup("multi").BooleanOK(); multi {
		return "it changes several"
	}
	if limit, ok := write.Lookup("limit").AsInt64OK(); ok && limit != 1 {
		return "it deletes several"
	}
	return ""
}

// bucketWrites returns the updates or deletes of buckets that a fake received.
func bucketWrites(f *mongodbtest.Fake, command, list string) (writes []bson.Raw) {
	for _, c := range f.Sent(command) {
		if c.Index(0).Value().StringValue() != "events.buckets" {
			continue
		}
		values, _ := c.Lookup(list).Array().Values()
		for _, v := range values {
			writes = append(writes, v.Document())
		}
	}
	return writes
}

// TestEveryWriteNamesTheShardKey checks this because mongos sends other updates and deletes to all shards, without a shard
// version.
func TestEveryWriteNamesTheShardKey(t *testing.T) {
	f, p := onFake(t, mongodbtest.ReplicaSet)
	every := func(command bson.Raw) bson.D {
		for _, list := range []string{"updates", "deletes"} {
			if values, ok := command.Lookup(list).ArrayOK(); ok {
				all, _ := values.Values()
				return mongodbtest.Counting(len(all))(nil)
			}
		}
		return nil
	}
	f.Answer("update", every)
	f.Answer("delete", every)
	c := claim.Compaction{ID: token(), TopicID: source.TopicID, VisibleFrom: minute, Segments: []claim.Segment{
		{ID: bson.ObjectID{1}, Min: minute}, {ID: bson.ObjectID{2}, Min: 2 * minute},
	}}
	for _, change := range []claim.SegmentChange{claim.Freeze, claim.End, claim.Unfreeze} {
		if err := p.ChangeSegments(t.Context(), &c, change, c.Segments); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Sweep(t.Context(), c.Segments, time.UnixMilli(minute)); err != nil {
		t.Fatal(err)
	}
	without := bson.D{{Key: "_id", Value: bson.ObjectID{3}}, {Key: "control", Value: bson.D{{Key: "min", Value: bson.D{{Key: "time", Value: bson.DateTime(minute)}}}}}}
	found := 0
	f.Answer("find", func(bson.Raw) bson.D {
		if found++; found == 1 {
			return mongodbtest.CursorOf(insertOf("a", run(0, 3)...).Document, insertAt("b", 2*minute, run(5, 3)...).Document, without)
		}
		return mongodbtest.CursorOf()
	})
	if err := p.DeleteCompacted(t.Context(), &c); err != nil {
		t.Fatal(err)
	}
	w := insertOf("a", run(0, 3)...)
	sendAll(t, p, bucketer.Applied, updateOf(w, run(3, 1)[0]))
	updates, deletes := bucketWrites(f, "update", "updates"), bucketWrites(f, "delete", "deletes")
	if len(updates) != 7 || len(deletes) != 5 {
		t.Fatalf("%d updates and %d deletes", len(updates), len(deletes))
	}
	for _, write := range append(updates, deletes...) {
		if lacks := unkeyed(write); lacks != "" {
			t.Errorf("%s: %v", lacks, write)
		}
	}
}

// TestEditsNameTheShardKey covers buckets with and without a meta.
func TestEditsNameTheShardKey(t *testing.T) {
	for name, hello := range map[string]bson.D{"replica set": mongodbtest.ReplicaSet, "mongos": mongodbtest.Router} {
		t.Run(name, func(t *testing.T) {
			f := mongodbtest.NewFake(t, hello)
			d := mongodbtest.Open(t, f)
			stored := insertOf("a", run(0, 3)...).Document
			without := bson.D{{Key: "_id", Value: bson.ObjectID{3}}, {Key: "control", Value: bson.D{
				{Key: "min", Value: bson.D{{Key: "time", Value: bson.DateTime(minute)}}}, {Key: "count", Value: int32(1)},
			}}}
			f.Answer("find", func(bson.Raw) bson.D { return mongodbtest.CursorOf(stored, without) })
			f.Answer("insert", mongodbtest.Counting(1))
			f.Answer("update", func(command bson.Raw) bson.D {
				all, _ := command.Lookup("updates").Array().Values()
				return mongodbtest.Counting(len(all))(nil)
			})
			f.Answer("delete", mongodbtest.Counting(2))
			s := collection.Of(d, "events").Select("time", mongodb.Document(bson.D{}), true)
			all, err := s.Series(t.Context(), func(int64) {})
			if err != nil || len(all) != 2 {
				t.Fatalf("%+v, %v", all, err)
			}
			var changes []collection.MetaChange
			for _, one := range all {
				changes = append(changes, collection.MetaChange{Before: one.Meta, After: metaOf("z")})
			}
			change := s.Change(all, changes, func(collection.Edited) {})
			if err := change.Run(t.Context()); err != nil || change.Edited().Done.Buckets != 2 {
				t.Fatalf("%+v, %v", change.Edited(), err)
			}
			deletion := s.Delete(func(collection.Edited) {})
			if err := deletion.Run(t.Context()); err != nil || deletion.Edited().Done.Buckets != 2 {
				t.Fatalf("%+v, %v", deletion.Edited(), err)
			}
			updates, deletes := bucketWrites(f, "update", "updates"), bucketWrites(f, "delete", "deletes")
			if len(updates) != 2 || len(deletes) != 2 {
				t.Fatalf("%d updates and %d deletes", len(updates), len(deletes))
			}
			for _, write := range append(updates, deletes...) {
				if lacks := unkeyed(write); lacks != "" {
					t.Errorf("%s: %v", lacks, write)
				}
			}
			if v := updates[0].Lookup("q", "meta"); v.Type == bson.TypeEmbeddedDocument {
				if eq, err := v.Document().LookupErr("$eq"); err != nil || eq.Type != bson.TypeNull {
					t.Errorf("mongos takes no change of the shard key from %v", updates[0])
				}
			}
			var last int64
			commands := 0
			for _, c := range f.Sent("update") {
				number, retryable := c.Lookup("txnNumber").AsInt64OK()
				if commands++; retryable != (name == "mongos") || retryable && (number <= last || c.Lookup("lsid").Type == 0) {
					t.Errorf("update %d after %d: %v", number, last, c)
				}
				last = number
			}
			if want := map[string]int{"replica set": 1, "mongos": 2}[name]; commands != want {
				t.Errorf("%d commands, want %d", commands, want)
			}
		})
	}
}

// isFence reports whether a command is the query of a fence.
func isFence(command bson.Raw) bool {
	id, _ := command.Lookup("filter", "_id").StringValueOK()
	return id == "fence"
}

// TestAFenceReachesEveryShard checks this because the partition document lies on one shard. A query comes before the fence, so that
// the router knows all shards.
func TestAFenceReachesEveryShard(t *testing.T) {
	for name, c := range map[string]struct {
		hello  bson.D
		fences int
	}{"replica set": {mongodbtest.ReplicaSet, 0}, "mongos": {mongodbtest.Router, 1}} {
		t.Run(name, func(t *testing.T) {
			f, p := onFake(t, append(bson.D{{Key: "localTime", Value: time.Now()}}, c.hello...))
			for what, read := range map[string]func() error{
				"resolve": func() error {
					_, err := p.Resolve(t.Context(), []*bucketer.Write{insertOf("a", run(0, 1)...)})
					return err
				},
				"D":        func() error { _, err := p.Stored(t.Context(), 0, 10); return err },
				"segments": func() error { _, err := p.Segments(t.Context()); return err },
			} {
				before, asked, sent := len(bucketWrites(f, "update", "updates")), len(f.Sent("find")), len(f.Commands)
				if err := read(); err != nil {
					t.Fatal(what, err)
				}
				queried := slices.IndexFunc(f.Commands[sent:], isFence)
				fenced := slices.IndexFunc(f.Commands[sent:], func(c bson.Raw) bool {
					return mongodbtest.NameOf(c) == "update" && c.Index(0).Value().StringValue() == "events.buckets"
				})
				if (queried >= 0) != (c.fences > 0) || queried > fenced {
					t.Errorf("%s: the query of the fence is command %d, and its update command %d", what, queried, fenced)
				}
				fences := bucketWrites(f, "update", "updates")[before:]
				if len(fences) != c.fences {
					t.Errorf("%s: %d fences of all shards, want %d", what, len(fences), c.fences)
				}
				for _, fence := range fences {
					if multi, _ := fence.Lookup("multi").BooleanOK(); !multi || unkeyed(fence) == "" {
						t.Errorf("%s: one shard gets %v", what, fence)
					}
				}
				if len(f.Sent("find"))-asked <= c.fences {
					t.Errorf("%s: nothing was read", what)
				}
			}
			f.Answer("update", func(command bson.Raw) bson.D {
				if command.Index(0).Value().StringValue() == "events.buckets" {
					return unconfirmed
				}
				return mongodbtest.Counting(1)(nil)
			})
			sent := len(f.Sent("find"))
			_, err := p.Resolve(t.Context(), []*bucketer.Write{insertOf("a", run(0, 1)...)})
			read := slices.ContainsFunc(f.Sent("find")[sent:], func(c bson.Raw) bool { return !isFence(c) })
			if _, ok := errors.AsType[*mongodb.OutageError](err); ok != (c.fences > 0) || read == (c.fences > 0) {
				t.Errorf("with a fence that a majority does not have: %v", err)
			}
		})
	}
}

// TestAnArrayIsNoShardKey checks that the measurement becomes a letter. The same code for other metas stays an outage, because
// the collection is then sharded by another key.
func TestAnArrayIsNoShardKey(t *testing.T) {
	f, p := onFake(t, mongodbtest.Router, func(o *mongodb.Options) { o.Logger = slog.New(slog.DiscardHandler) })
	array := insertOf("a", run(5, 1)...)
	array.Meta = mongodb.Document(bson.D{{Key: "m", Value: bson.A{"x", "y"}}}).Lookup("m")
	f.Answer("insert", func(bson.Raw) bson.D {
		refusal := func(i int32) bson.D {
			return bson.D{{Key: "index", Value: i}, {Key: "code", Value: int32(61)}, {Key: "errmsg", Value: "Shard key cannot contain array values"}}
		}
		return bson.D{{Key: "n", Value: int32(1)}, {Key: "writeErrors", Value: bson.A{refusal(0), refusal(2)}}}
	})
	sent := p.Send(t.Context(), []*bucketer.Write{array, insertOf("b", run(0, 1)...), insertOf("c", run(9, 1)...)})
	if s := sent[0]; s.Result != bucketer.Refused || s.Code != 61 || s.Err != nil || !strings.Contains(s.Message, "its meta is an array") {
		t.Errorf("an array: %+v", s)
	}
	if sent[1].Result != bucketer.Applied || sent[2].Result != bucketer.Unknown {
		t.Errorf("others: %+v, %+v", sent[1], sent[2])
	}
}

// TestReadsOfAllShardsAreAtOneMoment checks this because update-meta can move a bucket to a shard that a query has read already.
// A consumer would then store its measurements a second time.
func TestReadsOfAllShardsAreAtOneMoment(t *testing.T) {
	for name, c := range map[string]struct {
		hello   bson.D
		refuses bool
		levels  []string // of the reads of buckets
	}{
		"router":                  {mongodbtest.Router, false, []string{"snapshot", "snapshot", "snapshot"}},
		"router without snapshot": {mongodbtest.Router, true, []string{"snapshot", "majority", "majority", "majority"}},
		"replica set":             {mongodbtest.ReplicaSet, false, []string{"majority", "majority", "majority"}},
	} {
		f, p := onFake(t, c.hello)
		f.Answer("update", mongodbtest.Counting(1))
		var levels []string
		answerReads(f, &levels, func() bson.D {
			if c.refuses && levels[len(levels)-1] == "snapshot" {
				return mongodbtest.Failing(72, "readConcern level snapshot is not supported")(nil)
			}
			return mongodbtest.CursorOf()
		})
		if _, err := p.Stored(t.Context(), 0, 10); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		w := insertOf("a", run(0, 3)...)
		if results, err := p.Resolve(t.Context(), []*bucketer.Write{w}); err != nil || results[0] != bucketer.NotApplied {
			t.Errorf("%s: %v, %v", name, results, err)
		}
		if err := p.DeleteCompacted(t.Context(), &claim.Compaction{Segments: []claim.Segment{{ID: bson.ObjectID{1}}}}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if !slices.Equal(levels, c.levels) {
			t.Errorf("%s: %v", name, levels)
		}
	}
}

// answerReads sets the answer to reads of buckets, and notes the levels of their read concerns. Other reads find nothing.
func answerReads(f *mongodbtest.Fake, levels *[]string, answer func() bson.D) {
	f.Answer("find", func(command bson.Raw) bson.D {
		if command.Index(0).Value().StringValue() != "events.buckets" || isFence(command) {
			return mongodbtest.CursorOf()
		}
		*levels = append(*levels, command.Lookup("readConcern", "level").StringValue())
		return answer()
	})
}

// TestAShardThatLearnsOfAMoveRefusesNoMoment has a router answer one read with a code of a moving chunk. The read fails, and later
// reads are at one moment as before.
func TestAShardThatLearnsOfAMoveRefusesNoMoment(t *testing.T) {
	for _, code := range []int32{63, 82, 272, 343} {
		f, p := onFake(t, mongodbtest.Router)
		f.Answer("update", mongodbtest.Counting(1))
		var levels []string
		answerReads(f, &levels, func() bson.D {
			if len(levels) == 1 {
				return mongodbtest.Failing(code, "the chunk is moving")(nil)
			}
			return mongodbtest.CursorOf()
		})
		if _, err := p.Stored(t.Context(), 0, 10); err == nil {
			t.Errorf("code %d: the read succeeds", code)
		}
		if _, err := p.Stored(t.Context(), 0, 10); err != nil || !slices.Equal(levels, []string{"snapshot", "snapshot"}) {
			t.Errorf("code %d: %v, %v", code, levels, err)
		}
	}
}

// TestAMomentThatIsTooOldShrinksTheWindow has a server that keeps a moment for less time than reading the stored positions takes.
// The next try reads less.
func TestAMomentThatIsTooOldShrinksTheWindow(t *testing.T) {
	f, p := onFake(t, mongodbtest.Router)
	f.Answer("update", mongodbtest.Counting(1))
	f.Answer("find", func(command bson.Raw) bson.D {
		if filter := command.Lookup("filter").String(); strings.Contains(filter, `"800"`) || strings.Contains(filter, "799") {
			return mongodbtest.Failing(239, "Read timestamp is older than the oldest available timestamp")(nil)
		}
		return mongodbtest.CursorOf()
	})
	for range 3 {
		set, err := p.Stored(t.Context(), 0, 800)
		if err != nil {
			continue
		}
		if _, end := set.Window(); end > 200 {
			t.Errorf("the window ends at %d", end)
		}
		return
	}
	t.Error("the stored positions are never read")
}
