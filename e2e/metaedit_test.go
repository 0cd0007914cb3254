package e2e_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"waterwheel/e2e/check"
	"waterwheel/reader"
)

// metasInSegments are settings of a consumer whose segments are compacted only when a command requests it.
var metasInSegments = []string{"SEGMENTS", "on", "COMPACT_INTERVAL", "1h", "COMPACT_VISIBILITY_DELAY", "5s", "SEGMENT_RETENTION", "30s"}

// TestMetaEditsShowOtherSeriesOnce changes and deletes whole series while a consumer writes segments. Every query, through the
// reader and the view, must find each measurement of other series once. The edits must reach everything stored before, also in
// segments.
func TestMetaEditsShowOtherSeriesOnce(t *testing.T) {
	t.Parallel()
	needCompaction(t)
	s := newStream(t, 2)
	c := s.start(metasInSegments...)
	g := s.generator(20)
	if err := s.send(within(t, time.Minute), g, 2000); err != nil {
		t.Fatal(err)
	}
	s.awaitCommitted(c, time.Minute)
	if s.segments(t.Context()) == 0 {
		t.Fatal("nothing is in segments")
	}
	w := s.watchOthers()
	load := s.startLoad(g, 50)

	s.edit("update-meta", "--yes", "--filter", `{"meta.id": {"$gte": 1}}`, "--update", `{"$set": {"meta.area": "x"}}`)
	for at, meta := range w.edited() {
		if area, _ := meta.Lookup("area").StringValueOK(); area != "x" {
			t.Fatalf("%s%v was stored before the update and has the meta %v", check.Verdict, at, meta)
		}
	}
	s.edit("delete-meta", "--yes", "--filter", `{"meta.area": "x"}`)
	if left := w.edited(); len(left) > 0 {
		t.Errorf("%s%d measurements that were stored before are left by the deletion", check.Verdict, len(left))
	}
	w.stop()
	load.stop()
	s.awaitCommitted(c, time.Minute)
	s.terminate(c)
	t.Log(s.succeed("verify", "--content"))
}

// watcher reads everything, again and again, in the background.
type watcher struct {
	s      *stream
	series *reader.Series
	view   *mongo.Collection // Nil means that there is no view.
	others map[bool]map[string]bool
	before map[string]bool // measurements of the series to edit, as the reader names them
	cancel context.CancelFunc
	group  sync.WaitGroup
	looks  [2]int
}

// watchOthers watches the series whose meta has no id. All their measurements must be stored.
func (s *stream) watchOthers() *watcher {
	s.t.Helper()
	db := s.readable()
	w := &watcher{s: s, series: s.open(world.servers.MongoURI), others: map[bool]map[string]bool{}, before: map[string]bool{}}
	found, err := db.ListCollectionSpecifications(within(s.t, 20*time.Second), bson.D{{Key: "name", Value: s.topic}})
	if err != nil {
		s.t.Fatal(err)
	}
	if len(found) > 0 && found[0].Type == "view" {
		w.view = db.Collection(s.topic)
	}
	for _, byView := range []bool{false, true} {
		w.others[byView] = map[string]bool{}
		if byView && w.view == nil {
			continue
		}
		all, err := w.look(s.t.Context(), byView)
		if err != nil {
			s.t.Fatal(err)
		}
		for key, metas := range all {
			if len(metas) > 1 {
				s.t.Fatalf("%s is found %d times before anything is edited", key, len(metas))
			}
			switch {
			case !isEdited(metas[0]):
				w.others[byView][key] = true
			case !byView:
				w.before[key] = true
			}
		}
		s.t.Logf("by view %v: %d measurements, %d of other series", byView, len(all), len(w.others[byView]))
	}
	ctx, cancel := context.WithCancel(s.t.Context())
	w.cancel = cancel
	for i, byView := range []bool{false, true} {
		if len(w.others[byView]) > 0 {
			w.group.Go(func() { w.watch(ctx, byView, &w.looks[i]) })
		}
	}
	s.t.Cleanup(w.stop)
	return w
}

func isEdited(meta bson.RawValue) bool {
	object, ok := meta.DocumentOK()
	return ok && object.Lookup("id").Type != 0
}

// mostDisorders is how often the reader may refuse an answer because metas changed meanwhile. An in-memory server without
// snapshots sorts documents, and sends their state of a moment later.
const mostDisorders = 3

// watch reports measurements that are not found exactly once.
func (w *watcher) watch(ctx context.Context, byView bool, looks *int) {
	disorders := 0
	for ctx.Err() == nil {
		all, err := w.look(ctx, byView)
		if ctx.Err() != nil {
			return
		}
		if err != nil && strings.Contains(err.Error(), "in the order of their metas") && disorders < mostDisorders {
			disorders++
			w.s.t.Log(err)
			continue
		}
		if err != nil {
			w.s.t.Errorf("by view %v: %v", byView, err)
			return
		}
		*looks++
		wrong := 0
		for key := range w.others[byView] {
			if n := len(all[key]); n != 1 {
				if wrong++; wrong == 1 {
					w.s.t.Errorf("%sby view %v: %s of another series is found %d times", check.Verdict, byView, key, n)
				}
			}
		}
		if wrong > 1 {
			w.s.t.Errorf("by view %v: that and %d more", byView, wrong-1)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// look reads everything, and returns the metas of each measurement.
func (w *watcher) look(ctx context.Context, byView bool) (map[string][]bson.RawValue, error) {
	all := map[string][]bson.RawValue{}
	if !byView {
		for m, err := range w.series.Find(ctx, reader.Query{}) {
			if err != nil {
				return nil, err
			}
			key := fmt.Sprint(place{m.Source.Partition, m.Position})
			all[key] = append(all[key], bson.RawValue{Type: m.Meta.Type, Value: append([]byte(nil), m.Meta.Value...)})
		}
		return all, nil
	}
	cursor, err := w.view.Find(ctx, bson.D{})
	if err != nil {
		return nil, err
	}
	var documents []bson.Raw
	if err := cursor.All(ctx, &documents); err != nil {
		return nil, err
	}
	for _, d := range documents {
		key := fmt.Sprint(d.Lookup("meta"), d.Lookup("step")) // a serial number in the series
		all[key] = append(all[key], d.Lookup("meta"))
	}
	return all, nil
}

// edited returns the present metas of the measurements of edited series that existed when the watch began.
func (w *watcher) edited() map[string]bson.Raw {
	w.s.t.Helper()
	all, err := w.look(w.s.t.Context(), false)
	if err != nil {
		w.s.t.Fatal(err)
	}
	now := map[string]bson.Raw{}
	for key := range w.before {
		for _, meta := range all[key] {
			now[key] = meta.Document()
		}
	}
	return now
}

// stop ends the watch.
func (w *watcher) stop() {
	w.cancel()
	w.group.Wait()
	w.s.t.Logf("the reader was asked %d times, the view %d times", w.looks[0], w.looks[1])
}
