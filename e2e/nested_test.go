package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"waterwheel/e2e/events"
)

// Some users query one document per series and month, with nested days, hours and minutes. Increments are a common way to keep
// its totals. An increment is durable before the offset of its record is committed, so a crash in between counts it twice.

// nestedDays is the time of the first measurements of these tests.
var nestedDays = time.Date(2026, 3, 30, 0, 0, 0, 0, time.UTC)

// nestedReadings returns measurements of the sensors, two hours apart, on three days. The last day is in another month.
func nestedReadings() (all []events.Reading) {
	for n := range 3 * 12 {
		for sensor := range sensors {
			all = append(all, events.Reading{
				Time: nestedDays.Add(time.Duration(n) * 2 * time.Hour).UnixMilli(), Meta: sensors[sensor],
				Fields: bson.D{{Key: "celsius", Value: float64(n+sensor) / 4}, {Key: "wind", Value: bson.D{{Key: "speed", Value: int64(n % 7)}}}},
			})
		}
	}
	return all
}

// summed is the expected result of a query for the days of a sensor.
type summed struct {
	Count, Wind int64
	Celsius     float64
}

func sumOf(all []events.Reading, sensor int, from, to time.Time) (want summed) {
	for _, r := range all {
		if at := time.UnixMilli(r.Time); fmt.Sprint(r.Meta) == fmt.Sprint(sensors[sensor]) && !at.Before(from) && at.Before(to) {
			want.Count++
			want.Celsius += r.Fields[0].Value.(float64)
			want.Wind += r.Fields[1].Value.(bson.D)[0].Value.(int64)
		}
	}
	return want
}

// classicQuery queries a collection of nested documents for the sums of a sensor over some days. It queries each sum separately,
// because the embedded MongoDB supports only one in a group.
func classicQuery(ctx context.Context, c *mongo.Collection, sensor int, from, to time.Time) (found summed, err error) {
	sum := func(field string) (value bson.RawValue, err error) {
		cursor, err := c.Aggregate(ctx, bson.A{
			bson.D{{Key: "$match", Value: bson.D{{Key: "sensor", Value: sensors[sensor][0].Value}, {Key: "site", Value: sensors[sensor][1].Value}}}},
			bson.D{{Key: "$unwind", Value: "$days"}},
			bson.D{{Key: "$match", Value: bson.D{{Key: "days.date", Value: bson.D{{Key: "$gte", Value: from}, {Key: "$lt", Value: to}}}}}},
			bson.D{{Key: "$group", Value: bson.D{{Key: "_id", Value: nil}, {Key: "sum", Value: bson.D{{Key: "$sum", Value: "$days." + field}}}}}},
		})
		if err != nil {
			return value, err
		}
		var all []bson.Raw
		if err := cursor.All(ctx, &all); err != nil || len(all) == 0 {
			return value, errors.Join(err, fmt.Errorf("%d groups", len(all)))
		}
		return all[0].Lookup("sum"), nil
	}
	count, err := sum("count")
	celsius, err2 := sum("celsius")
	wind, err3 := sum("wind.speed")
	found.Count, _ = count.AsInt64OK()
	found.Celsius, _ = celsius.AsFloat64OK()
	found.Wind, _ = wind.AsInt64OK()
	return found, errors.Join(err, err2, err3)
}

// TestNestedTotalsOutliveAKill checks that the classic query finds the measured sums after a consumer was killed and exports were
// repeated. The same totals by increments are too large after a kill.
func TestNestedTotalsOutliveAKill(t *testing.T) {
	t.Parallel()
	s := newStream(t, 2)
	into := s.topic + "_months"
	settings := append([]string{"ROLLUP_NESTED", into + ":sum"}, rolledUp...)
	all := nestedReadings()
	send := func(some []events.Reading) {
		t.Helper()
		var records []events.Event
		for _, r := range some {
			records = append(records, events.Of(r))
		}
		if err := s.producer.Send(within(t, 20*time.Second), records...); err != nil {
			t.Fatal(err)
		}
	}
	c := s.start(settings...)
	send(all[:len(all)/2])
	s.awaitRows(c, time.Minute)
	c.Kill()
	send(all[len(all)/2:])
	c = s.start(settings...)
	s.awaitCommitted(c, 90*time.Second)
	s.awaitRolledUp(c)
	s.terminate(c)

	db := s.readable()
	compare := func(name string) {
		t.Helper()
		for sensor := range sensors {
			for first := range 3 {
				from, to := nestedDays.AddDate(0, 0, first), nestedDays.AddDate(0, 0, 3)
				found, err := classicQuery(within(t, 20*time.Second), db.Collection(name), sensor, from, to)
				if want := sumOf(all, sensor, from, to); err != nil || found != want {
					t.Errorf("%s: sensor %d from %s: %+v, want %+v; %v", name, sensor, from, found, want, err)
				}
			}
		}
	}
	compare(into)
	patient := append([]string{"MONGODB_WRITE_TIMEOUT", "10s", "SHUTDOWN_TIMEOUT", "40s"}, rolledUp...) // the embedded server writes large documents slowly
	for range 2 {
		if code, stdout, stderr := s.command(patient, "rollup", "export", "--form", "nested", "--into", into+"2", "--agg", "sum"); code != 0 || !strings.Contains(stdout, "6 months of series are in "+into+"2.") {
			t.Fatalf("exit code %d, %s %s", code, stdout, stderr)
		}
		compare(into + "2")
	}
	for want, args := range map[string][]string{
		"--form is missing: give --form nested": {},
		`--form is "flat"`:                      {"--form", "flat"},
		`--agg has "summ"`:                      {"--form", "nested", "--agg", "summ"},
		"belongs to the time series":            {"--form", "nested", "--into", s.topic + "_1h"},
	} {
		if code, _, stderr := s.command(rolledUp, append([]string{"rollup", "export"}, args...)...); code == 0 || !strings.Contains(strings.ToLower(stderr), strings.ToLower(want)) {
			t.Errorf("%q: exit code %d, %s; want %s", args, code, stderr, want)
		}
	}

	s.compareTotals(all)

	increments := db.Collection(s.topic + "_increments")
	committed := 0
	killed := increment(t, increments, all, &committed, len(all)/2+10)
	if killed == committed {
		t.Fatal("nothing was incremented between the commit and the kill")
	}
	increment(t, increments, all, &committed, len(all))
	real, doubled := int64(0), int64(0)
	for sensor := range sensors {
		from, to := nestedDays, nestedDays.AddDate(0, 0, 3)
		found, err := classicQuery(within(t, 20*time.Second), increments, sensor, from, to)
		if err != nil {
			t.Fatal(err)
		}
		real += sumOf(all, sensor, from, to).Count
		doubled += found.Count
	}
	if doubled != real+10 {
		t.Errorf("increments count %d of %d measurements, where 10 came again after the kill", doubled, real)
	}
}

// compareTotals compares totals by day from rollups with those of measurements. It then deletes the measurements, whose rollups
// remain.
func (s *stream) compareTotals(all []events.Reading) {
	s.t.Helper()
	totals := func(more ...string) string {
		s.t.Helper()
		code, stdout, stderr := s.query(append([]string{s.topic, "celsius", "--every", "1d", "--agg", "sum,count", "--format", "csv"}, more...)...)
		if code != 0 {
			s.t.Fatalf("query ends with code %d: %s", code, stderr)
		}
		return stdout
	}
	want := "time,sensor,site,count,celsius.sum,celsius.count\n"
	for sensor := range sensors {
		for day := range 3 {
			from := nestedDays.AddDate(0, 0, day)
			of := sumOf(all, sensor, from, from.AddDate(0, 0, 1))
			want += fmt.Sprintf("%s,%s,%s,%d,%v,%d\n", from.Format("2006-01-02T15:04:05.000Z"), sensors[sensor][0].Value, sensors[sensor][1].Value, of.Count, of.Celsius, of.Count)
		}
	}
	if exact, rows := totals("--exact"), totals(); exact != want || rows != want {
		s.t.Errorf("totals by day:\n%s\nexactly:\n%s\nwant\n%s", rows, exact, want)
	}
	if _, err := s.collection(".buckets").DeleteMany(within(s.t, 20*time.Second), bson.D{}); err != nil {
		s.t.Fatal(err)
	}
	if exact, rows := totals("--exact"), totals(); exact != "" || rows != want {
		s.t.Errorf("totals by day without measurements:\n%s\nexactly:\n%s\nwant\n%s", rows, exact, want)
	}
}

// incrementedAtOnce is the number of records that a consumer increments before it commits.
const incrementedAtOnce = 27

// increment is a consumer of the classic kind. For each record it updates the document of its month. If nothing matched, it
// inserts a zeroed document and updates again. It starts at the committed record, commits after each batch, and is killed after
// some records. It returns their number.
func increment(t *testing.T, c *mongo.Collection, all []events.Reading, committed *int, kill int) int {
	t.Helper()
	ctx := within(t, time.Minute)
	for i := *committed; i < kill; i++ {
		r := all[i]
		at := time.UnixMilli(r.Time).UTC()
		month, day := time.Date(at.Year(), at.Month(), 1, 0, 0, 0, 0, time.UTC), at.Day()-1
		meta := r.Meta.(bson.D)
		filter := bson.D{{Key: "_id", Value: fmt.Sprint(meta[0].Value, month)}}
		path := fmt.Sprintf("days.%d.", day)
		add := bson.D{{Key: "$inc", Value: bson.D{
			{Key: path + "count", Value: int64(1)},
			{Key: path + "celsius", Value: r.Fields[0].Value},
			{Key: path + "wind.speed", Value: r.Fields[1].Value.(bson.D)[0].Value},
		}}}
		done, err := c.UpdateOne(ctx, filter, add)
		if err == nil && done.MatchedCount == 0 {
			var days bson.A
			for d := month; d.Before(month.AddDate(0, 1, 0)); d = d.AddDate(0, 0, 1) {
				days = append(days, bson.D{{Key: "date", Value: d}, {Key: "count", Value: int64(0)}, {Key: "celsius", Value: 0.0}, {Key: "wind", Value: bson.D{{Key: "speed", Value: int64(0)}}}})
			}
			zeroed := bson.D{{Key: "date", Value: month}, meta[0], meta[1], {Key: "days", Value: days}}
			_, err = c.UpdateOne(ctx, filter, bson.D{{Key: "$setOnInsert", Value: zeroed}}, options.UpdateOne().SetUpsert(true))
			if err == nil {
				_, err = c.UpdateOne(ctx, filter, add)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		if (i+1)%incrementedAtOnce == 0 {
			*committed = i + 1
		}
	}
	return kill
}
