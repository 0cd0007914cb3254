package e2e_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"waterwheel/e2e/events"
)

// These tests compare the view with MongoDB's native time series, and both with the same measurements in an ordinary collection,
// whose answers are correct. Servers without views or time series are skipped.

// viewBegin is the start time of the measurements of viewedReadings.
var viewBegin = time.Date(2026, 3, 1, 10, 30, 0, 0, time.UTC)

// viewedReadings returns 2,080 measurements of four series over thirteen hours, every seventh of which is late. Their field v has
// values of all types. Two of them lie before 1970 and after 2106.
func viewedReadings() (all []events.Reading) {
	values := []any{int32(7), 7.5, int64(1) << 40, "seven", true, nil, bson.A{int32(7), "x"}, bson.D{{Key: "x", Value: int32(7)}}}
	add := func(i int, at time.Time) {
		sensor := fmt.Sprintf("s-%d", i%4)
		fields := bson.D{{Key: "n", Value: int32(i)}, {Key: "v", Value: values[i/4%len(values)]}}
		if i%3 > 0 {
			fields = append(fields, bson.E{Key: "celsius", Value: float64(i%200) / 8})
		}
		if i%5 == 0 {
			fields = append(fields, bson.E{Key: "wind", Value: bson.D{{Key: "speed", Value: int32(i % 9)}, {Key: "from", Value: int32(i % 7)}}})
		}
		meta := bson.D{{Key: "sensor", Value: sensor}, {Key: "site", Value: []string{"north", "south"}[i%2]}}
		all = append(all, events.Reading{Time: at.UnixMilli(), Meta: meta, Fields: fields})
	}
	for i := range 2078 {
		at := viewBegin.Add(time.Duration(i) * 22500 * time.Millisecond)
		if i%7 == 0 {
			at = at.Add(-time.Duration(i%11) * 17 * time.Minute)
		}
		add(i, at)
	}
	add(0, time.Date(1960, 5, 5, 12, 0, 0, 0, time.UTC))
	add(1, time.Date(2110, 5, 5, 12, 0, 0, 0, time.UTC))
	return all
}

// viewedDocument returns a reading as the view shows it.
func viewedDocument(r events.Reading) bson.D {
	return append(bson.D{{Key: "time", Value: bson.DateTime(r.Time)}, {Key: "meta", Value: r.Meta}}, r.Fields...)
}

// viewedQueries returns the queries as pipelines.
func viewedQueries() (all []bson.A) {
	is := func(path, operator string, value any) bson.D {
		return bson.D{{Key: path, Value: bson.D{{Key: operator, Value: value}}}}
	}
	match := func(filter bson.D) { all = append(all, bson.A{bson.D{{Key: "$match", Value: filter}}}) }
	noon := viewBegin.Add(90 * time.Minute)
	for _, operator := range []string{"$gt", "$gte", "$lt", "$lte", "$eq", "$ne"} {
		match(is("time", operator, noon))
		match(is("celsius", operator, 12.5))
		match(is("v", operator, int32(7)))
	}
	for _, value := range []any{"seven", true, nil, bson.A{int32(7), "x"}, bson.D{{Key: "x", Value: int32(7)}}} {
		match(is("v", "$eq", value))
		match(is("v", "$gte", value))
	}
	s1 := bson.D{{Key: "sensor", Value: "s-1"}, {Key: "site", Value: "south"}}
	hour := bson.E{Key: "time", Value: bson.D{{Key: "$gte", Value: noon}, {Key: "$lt", Value: noon.Add(time.Hour)}}}
	for _, filter := range []bson.D{
		{},
		{{Key: "meta", Value: s1}},
		{{Key: "meta", Value: s1}, hour},
		{{Key: "meta.sensor", Value: "s-1"}, hour},
		{{Key: "meta.sensor", Value: bson.D{{Key: "$in", Value: bson.A{"s-1", "s-9"}}}}},
		{{Key: "meta.rack", Value: nil}},
		{{Key: "wind.speed", Value: bson.D{{Key: "$gte", Value: 5}}}},
		{{Key: "celsius", Value: bson.D{{Key: "$exists", Value: false}}}},
		{{Key: "$or", Value: bson.A{bson.D{hour}, bson.D{{Key: "time", Value: bson.D{{Key: "$lt", Value: viewBegin}}}}}}},
		{{Key: "$expr", Value: bson.D{{Key: "$lt", Value: bson.A{"$time", noon}}}}},
		// These are beyond the range of 32 bits of seconds.
		{{Key: "time", Value: bson.D{{Key: "$lt", Value: time.Unix(0, 0)}}}},
		{{Key: "time", Value: bson.D{{Key: "$gt", Value: time.Date(2107, 1, 1, 0, 0, 0, 0, time.UTC)}}}},
	} {
		match(filter)
	}
	group := func(id any, name, operator, field string) {
		all = append(all, bson.A{bson.D{{Key: "$group", Value: bson.D{{Key: "_id", Value: id}, {Key: name, Value: bson.D{{Key: operator, Value: field}}}}}}})
	}
	for _, operator := range []string{"$avg", "$min", "$max"} {
		group("$meta.sensor", "celsius", operator, "$celsius")
		group("$meta", "wind", operator, "$wind")
		group(nil, "time", operator, "$time")
	}
	return append(all,
		bson.A{bson.D{{Key: "$sort", Value: bson.D{{Key: "time", Value: -1}, {Key: "n", Value: 1}}}}, bson.D{{Key: "$limit", Value: 20}}},
		bson.A{bson.D{{Key: "$match", Value: bson.D{{Key: "meta", Value: s1}}}}, bson.D{{Key: "$sort", Value: bson.D{{Key: "time", Value: 1}, {Key: "n", Value: 1}}}}, bson.D{{Key: "$limit", Value: 20}}},
		bson.A{bson.D{{Key: "$count", Value: "n"}}},
	)
}

// answers returns the results of a pipeline in any order, as texts with sorted names.
func (s *stream) answers(c *mongo.Collection, pipeline bson.A) (texts []string) {
	s.t.Helper()
	ctx := within(s.t, 30*time.Second)
	var found []bson.D
	cursor, err := c.Aggregate(ctx, pipeline)
	if err == nil {
		err = cursor.All(ctx, &found)
	}
	if err != nil {
		s.t.Fatalf("%s, %v: %v", c.Name(), pipeline, err)
	}
	for _, d := range found {
		d = slices.DeleteFunc(d, func(e bson.E) bool { _, given := e.Value.(bson.ObjectID); return e.Key == "_id" && given })
		slices.SortFunc(d, func(a, b bson.E) int { return cmp.Compare(a.Key, b.Key) })
		texts = append(texts, fmt.Sprint(d))
	}
	slices.Sort(texts)
	return texts
}

// TestViewAnswersAsMongoDBsOwn checks that each kind of view gives the correct answer, or the answer of MongoDB's native time
// series. The command query, which needs no view, finds times outside of both ranges.
func TestViewAnswersAsMongoDBsOwn(t *testing.T) {
	t.Parallel()
	s := newStream(t, 3).inBuckets()
	s.settings = s.settings.With("EVENT_TIME_MIN", "1950-01-01T00:00:00Z", "EVENT_TIME_MAX", "2150-01-01T00:00:00Z")
	readings := viewedReadings()
	var made []events.Event
	for _, r := range readings {
		made = append(made, events.Of(r))
	}
	if err := s.producer.Send(within(t, 20*time.Second), made...); err != nil {
		t.Fatal(err)
	}
	s.catchUp()
	for _, years := range []string{"1955 1965", "2107 2120"} {
		from, to, _ := strings.Cut(years, " ")
		code, out, errs := s.query(s.topic, "--from", from+"-01-01", "--to", to+"-01-01", "--format", "json")
		if code != 0 || strings.Count(out, "\n") != 1 {
			t.Errorf("the measurement between %s and %s is not found alone: code %d\n%s%s", from, to, code, out, errs)
		}
	}

	db := s.readable()
	plain, native := s.besides(db, readings)
	for _, kind := range []string{"internal", "portable"} {
		t.Run(kind, func(t *testing.T) {
			if code, _, errs := s.command([]string{"MONGODB_VIEW=" + kind, "LOG_LEVEL=error"}, "init"); code != 0 {
				t.Skip(strings.TrimSpace(errs))
			}
			s.compareAnswers(t, db.Collection(s.topic), plain, native)
		})
	}
}

// compareAnswers runs all queries on a view. Its answers must equal those of the plain collection, which are correct, or those of
// the native time series.
func (s *stream) compareAnswers(t *testing.T, view, plain, native *mongo.Collection) {
	t.Helper()
	for _, query := range viewedQueries() {
		truth, got := s.answers(plain, query), s.answers(view, query)
		if slices.Equal(got, truth) {
			continue
		}
		if same := s.answers(native, query); !slices.Equal(got, same) {
			t.Errorf("%v: the view answers neither what is true nor what MongoDB's own time series does: %s", query, difference(truth, got))
		} else {
			t.Logf("%v: as MongoDB's own time series, the view differs from what is true: %s", query, difference(truth, got))
		}
	}
}

// besides creates an ordinary collection and a native time series with the same measurements. It skips the test if the server has
// no time series.
func (s *stream) besides(db *mongo.Database, readings []events.Reading) (plain, native *mongo.Collection) {
	s.t.Helper()
	plain, native = db.Collection("plain"), db.Collection("native")
	own := options.TimeSeries().SetTimeField("time").SetMetaField("meta")
	if err := db.CreateCollection(within(s.t, 10*time.Second), native.Name(), options.CreateCollection().SetTimeSeriesOptions(own)); err != nil {
		s.t.Skipf("this MongoDB has no time series of its own to compare the view with: %v", err)
	}
	var documents []any
	for _, r := range readings {
		documents = append(documents, viewedDocument(r))
	}
	for _, c := range []*mongo.Collection{plain, native} {
		if _, err := c.InsertMany(within(s.t, 30*time.Second), documents); err != nil {
			s.t.Skipf("this MongoDB does not store the measurements in %s: %v", c.Name(), err)
		}
	}
	return plain, native
}

// examined returns the number of buckets that the server examines for a query on the view. It returns false if the number is
// unknown.
func (s *stream) examined(db *mongo.Database, filter bson.D) (most int64, known bool) {
	s.t.Helper()
	aggregate := bson.D{{Key: "aggregate", Value: s.topic}, {Key: "pipeline", Value: bson.A{bson.D{{Key: "$match", Value: filter}}}}, {Key: "cursor", Value: bson.D{}}}
	var plan bson.D
	command := bson.D{{Key: "explain", Value: aggregate}, {Key: "verbosity", Value: "executionStats"}}
	if err := db.RunCommand(within(s.t, 20*time.Second), command).Decode(&plan); err != nil {
		return 0, false
	}
	var look func(value any)
	look = func(value any) {
		switch v := value.(type) {
		case bson.D:
			for _, e := range v {
				switch n := e.Value.(type) {
				case int32:
					if e.Key == "totalDocsExamined" {
						most, known = max(most, int64(n)), true
					}
				case int64:
					if e.Key == "totalDocsExamined" {
						most, known = max(most, n), true
					}
				default:
					look(n)
				}
			}
		case bson.A:
			for _, e := range v {
				look(e)
			}
		}
	}
	look(plan)
	return most, known
}

// TestViewIsNarrowed checks the statements of docs/reading.md about filters on time after MongoDB's own stage.
func TestViewIsNarrowed(t *testing.T) {
	t.Parallel()
	s := newStream(t, 3).inBuckets()
	internal := []string{"MONGODB_VIEW=internal", "LOG_LEVEL=error"}
	if code, _, errs := s.command(internal, "init"); code != 0 {
		t.Skip(strings.TrimSpace(errs))
	}
	var made []events.Event
	for _, r := range viewedReadings()[:2000] {
		made = append(made, events.Of(r))
	}
	if err := s.producer.Send(within(t, 20*time.Second), made...); err != nil {
		t.Fatal(err)
	}
	s.catchUp("BUCKET_MAX_COUNT", "20")
	if code, _, errs := s.command(internal, "init"); code != 0 { // the requested view, no matter which one the consumer chose
		t.Fatal(errs)
	}
	db := s.readable()
	from, to := viewBegin.Add(6*time.Hour), viewBegin.Add(7*time.Hour)
	hour := bson.E{Key: "time", Value: bson.D{{Key: "$gte", Value: from}, {Key: "$lt", Value: to}}}
	all, err := s.collection(".buckets").CountDocuments(within(t, 10*time.Second), bson.D{})
	if err != nil {
		t.Fatal(err)
	}
	inTime, err := s.collection(".buckets").CountDocuments(within(t, 10*time.Second), bson.D{
		{Key: "control.min.time", Value: bson.D{{Key: "$gte", Value: from.Add(-time.Hour)}, {Key: "$lt", Value: to}}},
	})
	if err != nil || inTime >= all/2 {
		t.Fatalf("%d of %d buckets, %v", inTime, all, err)
	}
	for _, c := range []struct {
		name   string
		filter bson.D
		most   int64
	}{
		{"the whole meta and a range of time", bson.D{{Key: "meta", Value: bson.D{{Key: "sensor", Value: "s-1"}, {Key: "site", Value: "south"}}}, hour}, inTime},
		{"a range of time", bson.D{hour}, inTime},
		{"a part of the meta and a range of time", bson.D{{Key: "meta.sensor", Value: "s-1"}, hour}, inTime},
		{"$or around times", bson.D{{Key: "$or", Value: bson.A{bson.D{hour}, bson.D{{Key: "time", Value: from}}}}}, all},
		{"$expr on the time", bson.D{{Key: "$expr", Value: bson.D{{Key: "$eq", Value: bson.A{"$time", from}}}}}, all},
	} {
		n, known := s.examined(db, c.filter)
		if !known {
			t.Skip("this MongoDB does not say how many documents a query examines")
		}
		t.Logf("%s: %d of %d buckets examined, %d are of that time", c.name, n, all, inTime)
		if n > c.most {
			t.Errorf("%s: more than %d", c.name, c.most)
		}
	}
}
