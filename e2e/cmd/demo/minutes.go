package main

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"waterwheel/e2e/events"
)

// This is the history of a tank, which a gateway sends all at once. Its level is in percent, with some readings a minute.
const (
	tankName  = "tank-1"
	tankHours = 3
	tankEvery = 15 * time.Second
)

// tankHistory returns the readings of the tank up to now.
func tankHistory(now time.Time) (all []events.Event) {
	meta := bson.D{{Key: "sensor", Value: tankName}, {Key: "site", Value: "roof"}}
	for at := now.Add(-tankHours * time.Hour); at.Before(now); at = at.Add(tankEvery) {
		hours := now.Sub(at).Hours()
		level := 55 + 35*math.Sin(4*hours) + 3*math.Sin(90*hours)
		all = append(all, events.Of(events.Reading{Time: at.UnixMilli(), Meta: meta, Fields: bson.D{{Key: "level", Value: math.Round(level*4) / 4}}}))
	}
	return all
}

// minute is the total of one minute.
type minute struct {
	n   int
	sum float64
}

// showMinutes draws the mean level of each minute from the rollups, and compares the rollups with the measurements.
func (s *stage) showMinutes(ctx context.Context, database *mongo.Database) error {
	var rows []struct {
		Data struct {
			Time  map[string]time.Time `bson:"time"`
			Level map[string]struct {
				N   int     `bson:"n"`
				Sum float64 `bson:"sum"`
			} `bson:"level"`
		} `bson:"data"`
	}
	tank := bson.D{{Key: "meta.sensor", Value: tankName}}
	if err := readAll(ctx, database.Collection(topicName+"_1m.buckets"), tank, &rows); err != nil {
		return fmt.Errorf("reading rollups: %w", err)
	}
	have := map[time.Time]minute{}
	for _, document := range rows {
		for index, at := range document.Data.Time {
			row := document.Data.Level[index]
			have[at] = minute{row.N, row.Sum}
		}
	}
	var buckets []struct {
		Data struct {
			Time  map[string]time.Time `bson:"time"`
			Level map[string]float64   `bson:"level"`
		} `bson:"data"`
	}
	if err := readAll(ctx, database.Collection(topicName+".buckets"), tank, &buckets); err != nil {
		return fmt.Errorf("reading the measurements of rollups: %w", err)
	}
	want, measured := map[time.Time]minute{}, 0
	for _, bucket := range buckets {
		for index, at := range bucket.Data.Time {
			m := want[at.Truncate(time.Minute)]
			want[at.Truncate(time.Minute)] = minute{m.n + 1, m.sum + bucket.Data.Level[index]}
			measured++
		}
	}
	s.out.title(fmt.Sprintf("A tank's level in percent, by minute, from rollups (%d rows in %d documents)", len(have), len(rows)))
	if difference := compareMinutes(have, want); difference != "" {
		return fmt.Errorf("the rollups are not the totals of the measurements: %s", difference)
	}
	var points []point
	for at, m := range have {
		points = append(points, point{at, m.sum / float64(m.n)})
	}
	slices.SortFunc(points, func(a, b point) int { return a.at.Compare(b.at) })
	for _, line := range s.chart(points) {
		s.out.line("%s", line)
	}
	s.out.line("  %s each row is the total of its minute's measurements, %s in all", s.out.paint(green, "✓"), grouped(measured))
	return nil
}

// compareMinutes says which minute differs. Empty means none. All values are multiples of a quarter, so sums are exact in any
// order.
func compareMinutes(have, want map[time.Time]minute) string {
	if len(want) < 2 {
		return fmt.Sprintf("measurements of %d minutes were found", len(want))
	}
	for at, m := range want {
		if have[at] != m {
			return fmt.Sprintf("the minute %s has %+v, and its measurements make %+v", at.Format("15:04"), have[at], m)
		}
	}
	for at := range have {
		if _, measured := want[at]; !measured {
			return fmt.Sprintf("the minute %s has a row, and no measurements", at.Format("15:04"))
		}
	}
	return ""
}

// readAll reads all documents that match a filter.
func readAll(ctx context.Context, c *mongo.Collection, filter bson.D, into any) error {
	cursor, err := c.Find(ctx, filter)
	if err != nil {
		return err
	}
	return cursor.All(ctx, into)
}

// awaitRollups waits until a pass over the rollups of every partition is done that began after the call.
func (s *stage) awaitRollups(ctx context.Context) error {
	for committed := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		m, err := s.consumer.Metrics(ctx)
		if err == nil && m.Sum("waterwheel_rollup_behind_seconds") < time.Since(committed).Seconds() {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("waiting for the rollups: %w\n%s", ctx.Err(), s.consumer.Log())
		}
	}
}
