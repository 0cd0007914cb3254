package chaos

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"waterwheel/e2e/check"
	"waterwheel/e2e/harness/proxy"
)

// maxExplained bounds the number of doubled measurements whose writes the report lists.
const maxExplained = 20

// passage is a write of buckets that reached the database completely, from its first byte to the database's answer.
type passage struct {
	proxy.Write
	slot int
	took time.Duration
	// answered reports whether the database answered. Otherwise the write took at least as long as took says.
	answered bool
}

// String describes the passage.
func (p passage) String() string {
	end := "answered"
	if !p.answered {
		end = "its connection ended without an answer"
	}
	return fmt.Sprintf("%s of consumer %d, sent at %s, %s after %.2fs", p.Kind, p.slot, p.Began.Format("15:04:05.000"), end, p.took.Seconds())
}

// passages returns the writes of all members that reached the database.
func (r *run) passages() (all []passage) {
	for _, m := range r.members {
		sent := map[uint64]time.Time{}
		for _, w := range m.near.Writes() {
			if w.Sum != 0 {
				sent[w.Sum] = w.Began
			}
		}
		for _, w := range m.far.Writes() {
			if w.Sum == 0 { // The write is incomplete, so the database never executes it.
				continue
			}
			if began, ok := sent[w.Sum]; ok {
				w.Began = began
			}
			p := passage{Write: w, slot: m.slot, answered: !w.Answered.IsZero()}
			end := w.Answered
			if !p.answered {
				if end = w.Ended; end.IsZero() {
					end = time.Now()
				}
			}
			p.took = end.Sub(w.Began)
			all = append(all, p)
		}
	}
	return all
}

// judgePassages reports how long writes were in flight. For doubled measurements it reports whether their writes took longer than
// consumers rely on.
func (r *run) judgePassages(ctx context.Context) error {
	all := r.passages()
	for _, p := range all {
		r.result.LongestWrite = max(r.result.LongestWrite, p.took)
	}
	r.note("the longest of %d writes was %.2fs on its way, consumers rely on less than %.0fs", len(all), r.result.LongestWrite.Seconds(), r.result.Grace.Seconds())
	if r.result.Doubled == 0 {
		return nil
	}
	doubled, err := r.doubledIn(ctx)
	if err != nil {
		return err
	}
	byBucket := map[bson.ObjectID][]passage{}
	for _, p := range all {
		for _, s := range p.Statements {
			byBucket[s.Bucket] = append(byBucket[s.Bucket], p)
		}
	}
	broken := 0
	for i, d := range doubled {
		lines, late := d.explain(byBucket, r.result.Grace)
		if late {
			broken++
		}
		if i < maxExplained {
			r.note("doubled: partition %d, offset %d, part %d:\n\t%s", d.partition, d.Offset, d.Part, strings.Join(lines, "\n\t"))
		}
	}
	r.note("of %d doubled measurements %d had a write that was longer than %.0fs on its way: there the assumption was broken; "+
		"of the others it was not", len(doubled), broken, r.result.Grace.Seconds())
	return nil
}

// doubledSpot is a measurement with the buckets that list it.
type doubledSpot struct {
	spot
	buckets []bson.ObjectID
}

// explain describes the writes that put the measurement into its buckets. late reports whether one of them took longer than
// grace.
func (d doubledSpot) explain(byBucket map[bson.ObjectID][]passage, grace time.Duration) (lines []string, late bool) {
	for _, id := range d.buckets {
		for _, p := range byBucket[id] {
			if p.puts(id, d.Position) {
				lines = append(lines, fmt.Sprintf("bucket %s: %v", id.Hex(), p))
				late = late || p.took > grace
			}
		}
	}
	return lines, late
}

// puts reports whether the write puts a position into a bucket.
func (p passage) puts(bucket bson.ObjectID, position check.Position) bool {
	for _, s := range p.Statements {
		if s.Bucket != bucket {
			continue
		}
		for _, element := range s.Offsets {
			if listed, err := check.PositionsIn(element); err == nil && slices.Contains(listed, position) {
				return true
			}
		}
	}
	return false
}

// doubledIn finds the measurements of the present topic that several buckets list.
func (r *run) doubledIn(ctx context.Context) ([]doubledSpot, error) {
	client, err := mongo.Connect(options.Client().ApplyURI(r.options.MongoURI))
	if err != nil {
		return nil, fmt.Errorf("connecting to read the buckets: %w", err)
	}
	defer client.Disconnect(context.WithoutCancel(ctx))
	database := client.Database(r.databaseName())
	unfinished, err := check.ReadUnfinished(ctx, database, r.topic)
	if err != nil {
		return nil, err
	}
	cursor, err := database.Collection(r.topic+".buckets").Find(ctx, bson.D{})
	if err != nil {
		return nil, fmt.Errorf("reading what is doubled: %w", err)
	}
	defer cursor.Close(ctx)
	listed := map[spot][]bson.ObjectID{}
	for cursor.Next(ctx) {
		partition, positions, err := check.PositionsOf(cursor.Current)
		if err != nil {
			return nil, fmt.Errorf("reading what is doubled: %w", err)
		}
		if !unfinished.Counts(cursor.Current) {
			continue
		}
		id, _ := cursor.Current.Lookup("_id").ObjectIDOK()
		for _, p := range positions {
			listed[spot{partition, p}] = append(listed[spot{partition, p}], id)
		}
	}
	var doubled []doubledSpot
	for s, buckets := range listed {
		if len(buckets) > 1 {
			doubled = append(doubled, doubledSpot{s, buckets})
		}
	}
	return doubled, cursor.Err()
}
