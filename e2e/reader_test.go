package e2e_test

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"waterwheel/e2e/events"
	"waterwheel/reader"
)

// These tests use the package reader as other programs would, on data that the consumer has stored.

// written returns random readings of a few series, each on several partitions. Half of them are late, some by many hours.
func written(random *rand.Rand, begin time.Time, n int) (readings []events.Reading, made []events.Event) {
	metas := []any{
		bson.D{{Key: "site", Value: "north"}, {Key: "sensor", Value: "s-1"}}, // not in the stored order
		bson.D{{Key: "site", Value: "north"}, {Key: "sensor", Value: "s-2"}},
		bson.D{{Key: "site", Value: "south"}, {Key: "sensor", Value: "s-3"}, {Key: "rack", Value: int32(7)}},
	}
	for i := range n {
		at := begin.Add(time.Duration(i) * 40 * time.Second)
		switch random.IntN(6) {
		case 0, 1:
			at = at.Add(-time.Duration(random.IntN(900)) * time.Second)
		case 2:
			at = at.Add(-time.Duration(random.IntN(10)) * time.Hour)
		}
		r := events.Reading{Time: at.Truncate(10 * time.Second).UnixMilli(), Meta: metas[random.IntN(len(metas))]}
		r.Fields = bson.D{{Key: "n", Value: int32(i)}}
		if random.IntN(2) == 0 {
			r.Fields = append(r.Fields, bson.E{Key: "celsius", Value: float64(random.IntN(300)) / 8})
		}
		if random.IntN(3) == 0 {
			r.Fields = append(r.Fields, bson.E{Key: "wind", Value: bson.D{{Key: "speed", Value: int32(random.IntN(9))}, {Key: "from", Value: "N"}}})
		}
		event := events.Of(r)
		event.Key = fmt.Append(nil, random.Uint32()) // a random partition
		readings, made = append(readings, r), append(made, event)
	}
	return readings, made
}

// question is a query, and the same condition as a function.
type question struct {
	reader.Query
	takes func(meta bson.D) bool
}

func randomQuestion(random *rand.Rand, begin time.Time) question {
	is := func(name string, values ...any) func(bson.D) bool {
		return func(meta bson.D) bool {
			return slices.ContainsFunc(meta, func(e bson.E) bool { return e.Key == name && slices.Contains(values, e.Value) })
		}
	}
	sensor := func(names ...any) func(bson.D) bool { return is("sensor", names...) }
	rackOrFirst := func(meta bson.D) bool { return is("rack", int32(7))(meta) || sensor("s-1")(meta) }
	q := []question{
		{takes: func(bson.D) bool { return true }},
		{reader.Query{Meta: bson.D{{Key: "meta.sensor", Value: "s-1"}}}, sensor("s-1")},
		{reader.Query{Meta: bson.D{{Key: "meta", Value: bson.D{{Key: "site", Value: "north"}, {Key: "sensor", Value: "s-2"}}}}}, sensor("s-2")},
		{reader.Query{Meta: bson.D{{Key: "meta.sensor", Value: bson.D{{Key: "$in", Value: bson.A{"s-2", "s-3"}}}}}}, sensor("s-2", "s-3")},
		{reader.Query{Meta: bson.D{{Key: "$or", Value: bson.A{bson.D{{Key: "meta.rack", Value: 7}}, bson.D{{Key: "meta.sensor", Value: "s-1"}}}}}}, rackOrFirst},
		{reader.Query{Meta: bson.D{{Key: "meta.sensor", Value: "s-9"}}}, sensor("s-9")},
	}[random.IntN(6)]
	minute := func() time.Time { return begin.Add(time.Duration(random.IntN(600)-200) * time.Minute) }
	if random.IntN(2) == 0 {
		q.From = minute()
	}
	if random.IntN(2) == 0 {
		if q.To = minute(); q.To.Before(q.From) {
			q.From, q.To = q.To, q.From
		}
	}
	q.Fields = [][]string{nil, {"celsius"}, {"n", "wind.speed"}, {}}[random.IntN(4)]
	q.Newest = random.IntN(3) == 0
	return q
}

// answer returns the expected answer to a question, as texts in any order.
func (q question) answer(readings []events.Reading) (texts []string) {
	for _, r := range readings {
		at := time.UnixMilli(r.Time)
		if !q.takes(r.Meta.(bson.D)) || !q.From.IsZero() && at.Before(q.From) || !q.To.IsZero() && !at.Before(q.To) {
			continue
		}
		var fields bson.D
		for _, f := range r.Fields {
			switch {
			case q.Fields == nil || slices.Contains(q.Fields, f.Key):
				fields = append(fields, f)
			case f.Key == "wind" && slices.Contains(q.Fields, "wind.speed"):
				fields = append(fields, bson.E{Key: "wind", Value: f.Value.(bson.D)[:1]})
			}
		}
		texts = append(texts, textOf(r.Time, r.Meta.(bson.D), fields))
	}
	return texts
}

// textOf returns a measurement as text, with sorted names of meta and fields.
func textOf(ms int64, meta, fields bson.D) string {
	sorted := func(d bson.D) bson.D {
		d = append(bson.D{}, d...)
		slices.SortFunc(d, func(a, b bson.E) int { return cmp.Compare(a.Key, b.Key) })
		return d
	}
	return fmt.Sprint(ms, sorted(meta), sorted(fields))
}

// textsOf returns the measurements of an iterator, and checks their order, which is by meta, time and position.
func textsOf(t *testing.T, s *reader.Series, q reader.Query) (texts []string) {
	t.Helper()
	var last reader.Measurement
	for m, err := range s.Find(t.Context(), q) {
		if err != nil {
			t.Fatal(err)
		}
		var meta, fields bson.D
		if err := m.Meta.Unmarshal(&meta); err != nil {
			t.Fatal(err)
		}
		if err := bson.Unmarshal(m.Fields, &fields); err != nil {
			t.Fatal(err)
		}
		if last.Time.IsZero() || !bytes.Equal(m.Meta.Value, last.Meta.Value) {
			if slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(text, fmt.Sprint(meta)+" ") }) {
				t.Fatalf("the series %v comes again", meta)
			}
		} else if c := cmp.Or(m.Time.Compare(last.Time), cmp.Compare(m.Source.Partition, last.Source.Partition), m.Position.Compare(last.Position)); (c <= 0) != q.Newest {
			t.Fatalf("%v of partition %d comes after %v of partition %d", m.Time, m.Source.Partition, last.Time, last.Source.Partition)
		}
		last = m.Clone()
		texts = append(texts, textOf(m.Time.UnixMilli(), meta, fields))
	}
	return texts
}

// difference returns the first measurement that only one of two lists has. Empty means that the lists are equal in some order.
func difference(want, got []string) string {
	slices.Sort(want)
	slices.Sort(got)
	for i := range max(len(want), len(got)) {
		switch {
		case i == len(got) || i < len(want) && want[i] < got[i]:
			return fmt.Sprintf("%d measurements, want %d: %s is missing", len(got), len(want), want[i])
		case i == len(want) || got[i] < want[i]:
			return fmt.Sprintf("%d measurements, want %d: %s is too much", len(got), len(want), got[i])
		}
	}
	return ""
}

// open opens the test's time series with a connection of its own, whose driver does not retry.
func (s *stream) open(uri string) *reader.Series { return s.openNamed(uri, s.topic) }

// openNamed is open for a time series with another name.
func (s *stream) openNamed(uri, name string) *reader.Series {
	s.t.Helper()
	client, err := mongo.Connect(options.Client().ApplyURI(uri).SetRetryReads(false))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = client.Disconnect(context.Background()) })
	series, err := reader.Open(within(s.t, 20*time.Second), client.Database(s.database), name)
	if err != nil {
		s.t.Fatal(err)
	}
	return series
}

// TestReaderFindsWhatWasProduced checks random questions against the produced measurements. There are late data, a coarser
// granularity in between, and edits of whole series. The command query is asked too, and the view if the server supports it.
func TestReaderFindsWhatWasProduced(t *testing.T) {
	t.Parallel()
	records := 2000
	if world.servers.Slow() {
		records = 300
	}
	s := newStream(t, 3)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	begin := time.Now().Add(-40 * time.Hour).Truncate(time.Minute)
	var readings []events.Reading
	for _, granularity := range []string{"seconds", "minutes"} {
		some, made := written(random, begin, records/2)
		readings = append(readings, some...)
		if err := s.producer.Send(within(t, 20*time.Second), made...); err != nil {
			t.Fatal(err)
		}
		s.catchUp()
		if code, out := s.shell("waterwheel collection set-granularity --yes "+granularity, map[string][]string{"waterwheel": {world.binary}}); code != 0 {
			t.Fatalf("exit code %d: %s", code, out)
		}
	}
	series := s.open(s.settings["MONGODB_URI"])
	s.ask(series, random, begin, readings, 60)
	c := s.start("COMPACT_INTERVAL", "1s", "COMPACT_VISIBILITY_DELAY", "2s") // the edits wait until segments are compacted
	s.edit("update-meta", "--yes", "--closed", "--filter", `{"meta.sensor": "s-3"}`, "--update", `{"$set": {"meta.rack": 8}}`)
	s.edit("delete-meta", "--yes", "--closed", "--filter", `{"meta.sensor": "s-2"}`)
	s.terminate(c)
	readings = edited(readings)
	s.ask(series, random, begin, readings, 30)
	s.compareView(series)
	s.compareLatest(series, readings)
}

// edited returns the readings after the edits of TestReaderFindsWhatWasProduced.
func edited(readings []events.Reading) (left []events.Reading) {
	for _, r := range readings {
		meta := r.Meta.(bson.D)
		switch meta[1].Value {
		case "s-2":
			continue
		case "s-3":
			r.Meta = bson.D{meta[0], meta[1], {Key: "rack", Value: int32(8)}}
		}
		left = append(left, r)
	}
	return left
}

// ask asks random questions, and asks every sixth through the command query too.
func (s *stream) ask(series *reader.Series, random *rand.Rand, begin time.Time, readings []events.Reading, n int) {
	s.t.Helper()
	answered := 0
	for i := range n {
		q := randomQuestion(random, begin)
		want := q.answer(readings)
		if diff := difference(want, textsOf(s.t, series, q.Query)); diff != "" {
			s.t.Fatalf("%+v: %s", q.Query, diff)
		}
		if len(want) > 0 {
			answered++
		}
		if i%6 == 0 {
			q.Fields = nil
			if diff := difference(q.answer(readings), s.queried(q.Query)); diff != "" {
				s.t.Fatalf("query %+v: %s", q.Query, diff)
			}
		}
	}
	if answered < n/4 {
		s.t.Errorf("only %d of %d questions had an answer", answered, n)
	}
}

// queried runs the command query for all fields.
func (s *stream) queried(q reader.Query) (texts []string) {
	s.t.Helper()
	args := []string{s.topic, "--format", "json"}
	if q.Meta != nil {
		filter, err := bson.MarshalExtJSON(q.Meta, false, false)
		if err != nil {
			s.t.Fatal(err)
		}
		args = append(args, "--filter", string(filter))
	}
	if !q.From.IsZero() {
		args = append(args, "--from", q.From.Format(time.RFC3339Nano))
	}
	if !q.To.IsZero() {
		args = append(args, "--to", q.To.Format(time.RFC3339Nano))
	}
	code, out, errs := s.query(args...)
	if code != 0 {
		s.t.Fatalf("%v: exit code %d, %s", args, code, errs)
	}
	for line := range strings.Lines(out) {
		var d bson.D
		if err := bson.UnmarshalExtJSON([]byte(line), false, &d); err != nil {
			s.t.Fatal(err)
		}
		texts = append(texts, textOf(d[0].Value.(bson.DateTime).Time().UnixMilli(), d[1].Value.(bson.D), d[2:]))
	}
	return texts
}

// compareView reads the same through the view, if the server supports it.
func (s *stream) compareView(series *reader.Series) {
	s.t.Helper()
	ctx, db := within(s.t, 30*time.Second), s.collection("").Database()
	found, err := db.ListCollectionSpecifications(ctx, bson.D{{Key: "name", Value: s.topic}})
	if err != nil {
		s.t.Fatal(err)
	}
	if len(found) == 0 || found[0].Type != "view" {
		s.t.Log("this MongoDB has no view of the measurements: it is not compared")
		return
	}
	texts := func(documents []bson.D) (all []string) {
		for _, d := range documents {
			slices.SortFunc(d, func(a, b bson.E) int { return cmp.Compare(a.Key, b.Key) })
			all = append(all, fmt.Sprint(d))
		}
		return all
	}
	cursor, err := db.Collection(s.topic).Find(ctx, bson.D{{Key: "meta.site", Value: "north"}})
	if err != nil {
		s.t.Fatal(err)
	}
	var viewed, read []bson.D
	if err := cursor.All(ctx, &viewed); err != nil {
		s.t.Fatal(err)
	}
	for m, err := range series.Find(ctx, reader.Query{Meta: bson.D{{Key: "meta.site", Value: "north"}}}) {
		var d bson.D
		if err == nil {
			err = m.Decode(&d)
		}
		if err != nil {
			s.t.Fatal(err)
		}
		read = append(read, d)
	}
	if diff := difference(texts(viewed), texts(read)); diff != "" {
		s.t.Error(diff)
	}
}

// compareLatest reads the newest measurement of each series.
func (s *stream) compareLatest(series *reader.Series, readings []events.Reading) {
	s.t.Helper()
	newest := map[string]int64{}
	for _, r := range readings {
		key := textOf(0, r.Meta.(bson.D), nil)
		newest[key] = max(newest[key], r.Time)
	}
	got := map[string]int64{}
	for m, err := range series.Latest(s.t.Context(), reader.Query{}) {
		var meta bson.D
		if err == nil {
			err = m.Meta.Unmarshal(&meta)
		}
		if err != nil {
			s.t.Fatal(err)
		}
		got[textOf(0, meta, nil)] = m.Time.UnixMilli()
	}
	if !maps.Equal(newest, got) {
		s.t.Errorf("the newest are %v, want %v", got, newest)
	}
}

// TestReaderGoesOnWhenConnectionsBreak cuts the connection again and again during a read. The read must return everything, in
// order.
func TestReaderGoesOnWhenConnectionsBreak(t *testing.T) {
	t.Parallel()
	if world.servers.Slow() {
		t.Skip("the embedded MongoDB answers with everything at once: there is no middle to cut at")
	}
	s := newStream(t, 3)
	readings, made := written(rand.New(rand.NewPCG(1, 2)), time.Now().Add(-40*time.Hour).Truncate(time.Minute), 3000)
	if err := s.producer.Send(within(t, 20*time.Second), made...); err != nil {
		t.Fatal(err)
	}
	s.catchUp("BUCKET_MAX_COUNT", "10") // many buckets need several answers of the server
	link, uri := world.servers.LinkMongo(t)
	series := s.open(uri)
	n, cuts := 0, 0
	var texts []string
	for m, err := range series.Find(within(t, time.Minute), reader.Query{}) {
		if err != nil {
			t.Fatalf("after %d measurements and %d cuts: %v", n, cuts, err)
		}
		var d bson.D
		if err := m.Decode(&d); err != nil {
			t.Fatal(err)
		}
		texts = append(texts, textOf(d[0].Value.(bson.DateTime).Time().UnixMilli(), d[1].Value.(bson.D), d[2:]))
		if n++; n%500 == 250 {
			link.Cut()
			cuts++
		}
	}
	want := question{takes: func(bson.D) bool { return true }}.answer(readings)
	if diff := difference(want, texts); diff != "" || cuts < 3 {
		t.Errorf("after %d cuts: %s", cuts, diff)
	}
}
