package e2e_test

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/e2e/check"
	"waterwheel/e2e/harness"
	"waterwheel/reader"
)

// rolledUp are settings of a consumer that keeps rollups of all levels, with little delay.
var rolledUp = []string{
	"ROLLUP_LEVELS", "1m,1h:17520h,1d", "ROLLUP_INTERVAL", "1s", "ROLLUP_SHARE", "1", "KAFKA_INSTANCE_ID", "one",
	"COMPACT_INTERVAL", "5s", "COMPACT_VISIBILITY_DELAY", "3s", "SEGMENT_RETENTION", "30s",
}

// TestRollupsOutliveKills kills a consumer under load again and again. Afterwards the totals by minute, hour and day must equal
// the totals that the test computes from all measurements.
func TestRollupsOutliveKills(t *testing.T) {
	t.Parallel()
	series, rate, times := 50, 2000, 3
	if world.servers.Slow() {
		series, rate = 8, 40
	}
	s := newStream(t, 3)
	load := s.startLoad(s.generator(series), rate)
	for range times {
		c := s.start(rolledUp...)
		s.awaitStored(c, time.Minute)
		s.awaitRows(c, time.Minute)
		c.Kill()
	}
	load.stop()
	c := s.start(rolledUp...)
	s.awaitCommitted(c, 90*time.Second)
	s.awaitRolledUp(c)
	s.compareRollups()
	s.check()
	s.t.Log(s.succeed("rollup", "verify"))

	if world.servers.Slow() { // it needs minutes to compute the rows of an edit
		s.terminate(c)
		return
	}
	s.edit("delete-meta", "--yes", "--closed", "--filter", `{"meta.id": {"$gte": 10}}`)
	s.awaitRolledUp(c)
	s.awaitComputedNotes(c, 2*time.Minute)
	s.compareRollups()
	s.terminate(c)
	s.t.Log(s.succeed("rollup", "status"))
}

// TestRollupsTakeNoMeasurements checks that a consumer whose collection is a rollup does not start, and says why.
func TestRollupsTakeNoMeasurements(t *testing.T) {
	t.Parallel()
	s := newStream(t, 1)
	c := s.start("ROLLUP_LEVELS", "1h")
	if err := c.AwaitReady(within(t, time.Minute)); err != nil {
		t.Fatal(err)
	}
	s.terminate(c)
	c = s.start("MONGODB_COLLECTION", s.topic+"_1h")
	code, err := c.Wait(within(t, time.Minute))
	if want := "is a rollup of " + s.topic; err != nil || code != 1 || !strings.Contains(c.Log(), want) {
		t.Errorf("the consumer ended with code %d (%v), and does not say that its collection %s", code, err, want)
	}
}

// awaitRows waits until a consumer has written rollup rows, so that it is doing this work when it is killed.
func (s *stream) awaitRows(c *harness.Consumer, d time.Duration) {
	s.t.Helper()
	for ctx := within(s.t, d); ; time.Sleep(20 * time.Millisecond) {
		metrics, err := c.Metrics(ctx)
		if err == nil && metrics.Sum("waterwheel_rollup_rows_total") > 0 {
			return
		}
		if ctx.Err() != nil || !c.Running() {
			s.t.Fatalf("the consumer writes no rollup rows (running: %v, last scrape: %v)", c.Running(), err)
		}
	}
}

// rollupPatience is the timeout for waiting for rows and reading them. The embedded server scans its collection for most of them.
func rollupPatience() time.Duration {
	if world.servers.Slow() {
		return 5 * time.Minute
	}
	return time.Minute
}

// awaitRolledUp waits until the watermarks of all partitions have reached the committed offsets.
func (s *stream) awaitRolledUp(c *harness.Consumer) {
	s.t.Helper()
	patience, last := rollupPatience(), ""
	for ctx := within(s.t, patience); ; time.Sleep(100 * time.Millisecond) {
		behind := s.behindRollups(ctx)
		if behind == "" {
			return
		}
		if ctx.Err() != nil || !c.Running() {
			s.t.Fatalf("the rollups are not complete after %v (running: %v): %s, and before: %s", patience, c.Running(), behind, last)
		}
		last = behind
	}
}

// behindRollups names the partition whose watermark is below the committed offset. Empty means none.
func (s *stream) behindRollups(ctx context.Context) string {
	topic, _, err := s.kafka.Topic(ctx, s.topic)
	if err != nil {
		return err.Error()
	}
	ends, err := s.kafka.Ends(ctx, topic)
	if err != nil {
		return err.Error()
	}
	cursor, err := s.readable().Collection(s.topic+".partitions").Find(ctx, bson.D{})
	if err != nil {
		return err.Error()
	}
	var all []struct {
		ID     string                  `bson:"_id"`
		Rollup []struct{ Below int64 } `bson:"rollup"`
	}
	if err := cursor.All(ctx, &all); err != nil {
		return err.Error()
	}
	if len(all) != len(ends) {
		return fmt.Sprintf("%d of %d partitions have a document", len(all), len(ends))
	}
	var below, end int64
	for _, p := range all {
		if len(p.Rollup) != 1 {
			return fmt.Sprintf("%s has %d watermarks", p.ID, len(p.Rollup))
		}
		below += p.Rollup[0].Below
	}
	for _, e := range ends {
		end += e
	}
	if below != end {
		return fmt.Sprintf("the watermarks add up to %d, and the log's ends to %d", below, end)
	}
	return ""
}

// awaitComputedNotes waits until the rows of edited series were computed. The note stays for a while, but is read once a second
// here.
func (s *stream) awaitComputedNotes(c *harness.Consumer, d time.Duration) {
	s.t.Helper()
	last := ""
	for ctx := within(s.t, d); ; time.Sleep(200 * time.Millisecond) {
		difference, err := s.rollupDifference(ctx)
		if difference == "" && err == nil {
			return
		}
		if ctx.Err() != nil || !c.Running() {
			s.t.Fatalf("the rows of deleted series are not computed: %s (%v)", last, err)
		}
		last = difference
	}
}

// total is the expected total of one field.
type total struct {
	n                      int64
	sum, least, most, size float64
}

// windows holds totals by series, window and field. Counts of measurements have an empty field.
type windows map[string]*total

func (w windows) add(key string, v float64) {
	t := w[key]
	if t == nil {
		t = &total{least: math.Inf(1), most: math.Inf(-1)}
		w[key] = t
	}
	t.n++
	t.sum += v
	t.size += math.Abs(v)
	t.least, t.most = min(t.least, v), max(t.most, v)
}

// fields calls use for every number within an object, except in arrays.
func fields(object bson.Raw, path string, use func(path string, v float64)) {
	elements, _ := object.Elements()
	for _, e := range elements {
		at := path + e.Key()
		switch v := e.Value(); v.Type {
		case bson.TypeEmbeddedDocument:
			fields(v.Document(), at+".", use)
		case bson.TypeInt32, bson.TypeInt64:
			use(at, float64(v.AsInt64()))
		case bson.TypeDouble:
			if !math.IsNaN(v.Double()) {
				use(at, v.Double())
			}
		}
	}
}

func windowKey(m reader.Measurement, at time.Time, field string) string {
	return fmt.Sprintf("%x/%s/%s", m.Meta.Value, at.UTC().Format(time.RFC3339), field)
}

// compareRollups fails the test at the first difference.
func (s *stream) compareRollups() {
	s.t.Helper()
	difference, err := s.rollupDifference(within(s.t, rollupPatience()))
	if err != nil {
		s.t.Fatalf("comparing rollups: %v", err)
	}
	if difference != "" {
		s.t.Errorf("%s%s", check.Verdict, difference)
	}
}

// rollupDifference compares the rows of all levels with totals of all measurements. Empty means that they are equal.
func (s *stream) rollupDifference(ctx context.Context) (string, error) {
	for level, step := range map[string]time.Duration{"1m": time.Minute, "1h": time.Hour, "1d": 24 * time.Hour} {
		want, objects := windows{}, map[string]bool{}
		for m, err := range s.openNamed(world.servers.MongoURI, s.topic).Find(ctx, reader.Query{}) {
			if err != nil {
				return "", err
			}
			at := m.Time.Truncate(step)
			want.add(windowKey(m, at, ""), 0)
			fields(m.Fields, "", func(path string, v float64) {
				want.add(windowKey(m, at, path), v)
				for i := range path {
					if path[i] == '.' {
						objects[windowKey(m, at, path[:i])] = true
					}
				}
			})
		}
		for key := range objects { // a number has no total if the field is an object in other measurements
			delete(want, key)
		}
		n := 0
		for m, err := range s.openNamed(world.servers.MongoURI, s.topic+"_"+level).Find(ctx, reader.Query{}) {
			if err != nil {
				return "", err
			}
			n++
			key := windowKey(m, m.Time, "")
			count, _ := m.Fields.Lookup("count").AsInt64OK()
			if want[key] == nil || want[key].n != count {
				return fmt.Sprintf("level %s: the row of %s counts %d, want %+v", level, key, count, want[key]), nil
			}
			delete(want, key)
			if difference := compareRow(m, want); difference != "" {
				return fmt.Sprintf("level %s: %s", level, difference), nil
			}
		}
		for key, t := range want {
			return fmt.Sprintf("level %s: %d totals are missing, that of %s, %+v, among them; its row is there: %v",
				level, len(want), key, *t, want[key[:strings.LastIndexByte(key, '/')+1]] == nil), nil
		}
		if n == 0 {
			return "level " + level + " has no rows", nil
		}
		s.t.Logf("level %s: %d rows", level, n)
	}
	return "", nil
}

// compareRow compares the totals of a row with the wanted ones, and removes those from want.
func compareRow(m reader.Measurement, want windows) string {
	var compare func(object bson.Raw, path string) string
	compare = func(object bson.Raw, path string) string {
		elements, _ := object.Elements()
		for _, e := range elements {
			d, ok := e.Value().DocumentOK()
			if !ok {
				continue
			}
			if n, ok := d.Lookup("n").AsInt64OK(); ok {
				key := windowKey(m, m.Time, path+e.Key())
				t := want[key]
				sum, _ := d.Lookup("sum").AsFloat64OK()
				least, _ := d.Lookup("min").AsFloat64OK()
				most, _ := d.Lookup("max").AsFloat64OK()
				if t == nil || t.n != n || t.least != least || t.most != most || math.Abs(t.sum-sum) > 1e-9*(1+t.size) {
					return fmt.Sprintf("the total of %s is %v, want %+v", key, d, t)
				}
				delete(want, key)
				continue
			}
			if difference := compare(d, path+e.Key()+"."); difference != "" {
				return difference
			}
		}
		return ""
	}
	return compare(m.Fields, "")
}
