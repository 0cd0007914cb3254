package check

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"waterwheel/e2e/embedded"
	"waterwheel/e2e/events"
	"waterwheel/e2e/harness"
)

func uuid(first byte) bson.Binary {
	return bson.Binary{Subtype: bson.TypeBinaryUUID, Data: append([]byte{first}, make([]byte, 15)...)}
}

// sampleSegment returns the sample as a segment. Its last reading is of the series "s-17".
func sampleSegment(t *testing.T) bson.D {
	t.Helper()
	d := sampleBucket(t)
	meta := d[2].Value
	d = withOwnMeta(d)
	d = set(d, []string{"data", "meta"}, bson.D{{Key: "0", Value: meta}, {Key: "1", Value: meta}, {Key: "2", Value: "s-17"}})
	d = set(d, []string{"control", "min", "meta"}, "s-17")
	d = set(d, []string{"control", "max", "meta"}, meta)
	d = set(d, []string{"control", "closed"}, true)
	return set(d, []string{"control", "segment"}, bson.D{{Key: "owner", Value: "0/0"}})
}

// withOwnMeta gives a segment the meta that belongs to its _id.
func withOwnMeta(d bson.D) bson.D {
	id := d[0].Value.(bson.ObjectID)
	return set(d, []string{"meta"}, bson.Binary{Data: append([]byte("segment"), id[10]&0x0f, id[11])})
}

// judgeSegment is judge for a sample whose last reading is of another series.
func judgeSegment(t *testing.T, counts bool, documents ...bson.D) *Report {
	t.Helper()
	j := &judgement{topic: topic, report: &Report{}, readings: map[Place]*events.Reading{}, buckets: map[Place]int{}}
	for i, p := range []Position{{10, 3}, {12, 0}, {11, 0}} {
		j.readings[Place{1, p}] = sample()[i]
	}
	j.readings[Place{1, Position{Offset: 11}}].Meta = "s-17"
	for _, d := range documents {
		raw, err := bson.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		j.take(raw, counts)
	}
	j.countStored()
	return j.report
}

func TestAcceptsASegment(t *testing.T) {
	ended := set(sampleSegment(t), []string{"control", "segment", "visibleUntil"}, bson.DateTime(5))
	ended = set(ended, []string{"control", "segment", "compaction"}, uuid(1))
	for name, d := range map[string]bson.D{
		"with its measurements":  sampleSegment(t),
		"that is frozen":         set(sampleSegment(t), []string{"control", "segment", "compaction"}, uuid(1)),
		"of a compaction":        ended,
		"that begins before all": withOwnMeta(set(set(sampleSegment(t), []string{"control", "min", "time"}, bson.DateTime(opened-60_000)), []string{"_id"}, bson.NewObjectIDFromTimestamp(time.UnixMilli(opened-60_000)))),
	} {
		if report := judgeSegment(t, true, d); report.Err() != nil || report.Stored != 3 || report.Segments != 1 || report.Buckets != 0 {
			t.Errorf("a segment %s: %v, %v", name, report, report.Err())
		}
	}
	if report := judgeSegment(t, false, ended); report.Missing != 3 || report.Ended != 1 || report.Segments != 0 {
		t.Errorf("a segment that ended: %v", report)
	}
	compacted := set(set(sampleBucket(t), []string{"control", "closed"}, true), []string{"control", "compaction"},
		bson.D{{Key: "visibleFrom", Value: bson.DateTime(5)}, {Key: "id", Value: uuid(1)}})
	if report := judge(t, compacted); report.Err() != nil || report.Stored != 3 {
		t.Errorf("a compacted bucket: %v", report.Err())
	}
}

func TestNoticesWhatIsWrongWithASegment(t *testing.T) {
	for path, change := range map[string]struct {
		value any
		fault string
	}{
		"control.segment.owner":        {nil, "control.segment.owner"},
		"control.segment.visibleUntil": {bson.DateTime(5), "control.segment.visibleUntil"},
		"control.segment.compaction":   {bson.Binary{Subtype: 4, Data: []byte{1}}, "control.segment.compaction"},
		"control.closed":               {nil, "it is open"},
		"control.compaction":           {bson.D{{Key: "visibleFrom", Value: bson.DateTime(5)}, {Key: "id", Value: uuid(1)}}, "and was made of segments"},
		"control.min.meta":             {nil, "control.min"},
		"control.max.meta":             {"s-17", "control.max"},
		"control.min.time":             {bson.DateTime(opened + 60_000), "_id has time"},
		"control.min.time.":            {bson.DateTime(opened + 1), "control.min"},
		"control.segment":              {nil, "is of series"},
		"meta":                         {"x", "a segment of the meta \"x\""},
		"data.meta.2":                  {"s-18", "is of series"},
		"data.meta.1":                  {nil, "is of series"},
		"data.v.1":                     {2.0, "v is"},
		"data.w":                       {bson.D{{Key: "0", Value: true}}, "fields"},
		"control.source.offsets":       {bson.A{bson.Binary{Data: []byte{40}}, bson.Binary{Data: []byte{48, 2}}}, "must not be stored"},
	} {
		d := set(sampleSegment(t), strings.Split(strings.TrimRight(path, "."), "."), change.value)
		if err := judgeSegment(t, true, d).Err(); err == nil || !strings.Contains(err.Error(), change.fault) {
			t.Errorf("%s = %v: noticed %v, want %q", path, change.value, err, change.fault)
		}
	}
	for name, value := range map[string]bson.D{
		"no time": {{Key: "id", Value: uuid(1)}},
		"no id":   {{Key: "visibleFrom", Value: bson.DateTime(5)}},
	} {
		d := set(set(sampleBucket(t), []string{"control", "closed"}, true), []string{"control", "compaction"}, value)
		if err := judge(t, d).Err(); err == nil || !strings.Contains(err.Error(), "control.compaction is") {
			t.Errorf("a compacted bucket with %s: %v", name, err)
		}
	}
}

// about returns a document with one measurement, from this offset of the only partition.
func about(id byte, offset int64, control ...bson.E) bson.D {
	d := bson.D{
		{Key: "_id", Value: bson.ObjectID{11: id}},
		{Key: "control", Value: append(bson.D{
			{Key: "count", Value: int32(1)},
			{Key: "source", Value: bson.D{
				{Key: "topicId", Value: bson.Binary{Subtype: bson.TypeBinaryUUID, Data: topic.ID[:]}},
				{Key: "partition", Value: int32(0)},
				{Key: "offsets", Value: bson.A{bson.Binary{Data: []byte{byte(offset << 2)}}}},
			}},
		}, control...)},
		{Key: "data", Value: bson.D{}},
	}
	return d
}

func segmentOf(until int64, by byte) bson.E {
	s := bson.D{{Key: "owner", Value: "0/0"}}
	if by != 0 {
		s = append(s, bson.E{Key: "compaction", Value: uuid(by)})
	}
	if until != 0 {
		s = append(s, bson.E{Key: "visibleUntil", Value: bson.DateTime(until)})
	}
	return bson.E{Key: "segment", Value: s}
}

func compactedBy(from int64, by byte) bson.E {
	return bson.E{Key: "compaction", Value: bson.D{{Key: "visibleFrom", Value: bson.DateTime(from)}, {Key: "id", Value: uuid(by)}}}
}

// TestWhatCountsAndWhatIsShown checks the rules for each case, at the moment 1000 while compaction 1 is unfinished.
func TestWhatCountsAndWhatIsShown(t *testing.T) {
	open := unfinished{string(uuid(1).Data): true}
	for name, c := range map[string]struct {
		document        bson.D
		counts, shown   bool
		countsOtherwise bool // the result when no compaction is unfinished
	}{
		"a bucket":                                       {about(1, 1), true, true, true},
		"a compacted bucket":                             {about(1, 1, compactedBy(1000, 2)), true, true, true},
		"a compacted bucket, not shown yet":              {about(1, 1, compactedBy(1001, 2)), true, false, true},
		"a bucket of the compaction, not shown yet":      {about(1, 1, compactedBy(1001, 1)), false, false, true},
		"a bucket of the compaction, whose time is past": {about(1, 1, compactedBy(999, 1)), false, true, true},
		"a segment":                                      {about(1, 1, segmentOf(0, 0)), true, true, true},
		"a segment that ended":                           {about(1, 1, segmentOf(1000, 2)), false, false, false},
		"a segment that ends":                            {about(1, 1, segmentOf(1001, 2)), false, true, false},
		"a segment that ends by the compaction":          {about(1, 1, segmentOf(1001, 1)), true, true, false},
		"a segment that ended by the compaction":         {about(1, 1, segmentOf(1000, 1)), true, false, false},
		"a frozen segment":                               {about(1, 1, segmentOf(0, 1)), true, true, true},
	} {
		raw, err := bson.Marshal(c.document)
		if err != nil {
			t.Fatal(err)
		}
		b, err := decodeBucket(raw)
		if err != nil {
			t.Fatal(err)
		}
		if got := open.counts(raw); got != c.counts {
			t.Errorf("%s counts: %v", name, got)
		}
		if got := (unfinished{}).counts(raw); got != c.countsOtherwise {
			t.Errorf("%s counts when nothing is unfinished: %v", name, got)
		}
		if got := b.shown(1000); got != c.shown {
			t.Errorf("%s is shown: %v", name, got)
		}
	}
}

// TestShownLooksAtOneMoment reads from servers with ten measurements, of which seven are committed.
func TestShownLooksAtOneMoment(t *testing.T) {
	s, buckets := shownStage(t)
	far := time.Now().Add(time.Hour).UnixMilli()
	put := func(documents ...bson.D) {
		t.Helper()
		for _, d := range documents {
			if _, err := buckets.InsertOne(t.Context(), d); err != nil {
				t.Fatal(err)
			}
		}
	}
	for offset := range int64(3) {
		put(about(byte(offset), offset))
	}
	put( // 3 is compacted and shown, 4 is compacted and not yet shown, 5 and 6 are in segments, and 8 is not yet committed
		about(30, 3, segmentOf(5, 1)), about(31, 3, compactedBy(5, 1)), about(40, 4, segmentOf(far, 1)), about(41, 4, compactedBy(far, 1)),
		about(50, 5, segmentOf(0, 0)), about(60, 6, segmentOf(0, 0)), about(80, 8, segmentOf(0, 0)),
	)
	report, err := Shown(t.Context(), s)
	if err != nil || report.Err() != nil || report.Valid != 16 || report.Stored != 16 {
		t.Fatalf("%v, %v, %v", err, report, report.Err())
	}
	put(about(51, 5, compactedBy(5, 2)), about(70, 20))
	if _, err := buckets.DeleteOne(t.Context(), withID(0)); err != nil {
		t.Fatal(err)
	}
	end := bson.D{{Key: "$set", Value: bson.D{{Key: "control.segment.visibleUntil", Value: bson.DateTime(5)}}}}
	if _, err := buckets.UpdateOne(t.Context(), withID(60), end); err != nil {
		t.Fatal(err)
	}
	report, err = Shown(t.Context(), s)
	if err != nil || report.Doubled != 2 || report.Missing != 4 || report.Unknown != 2 || report.FaultCount != 8 || report.Err() == nil {
		t.Errorf("%v, %v, %v", err, report, report.Err())
	}
}

func withID(id byte) bson.D { return bson.D{{Key: "_id", Value: bson.ObjectID{11: id}}} }

// TestCalmNoticesCompactions checks a compaction that started while documents were read, and one that ended.
func TestCalmNoticesCompactions(t *testing.T) {
	_, buckets := shownStage(t)
	freeze := func(frozen bool) {
		t.Helper()
		segment := about(9, 9, segmentOf(0, 2))
		if !frozen {
			segment = about(9, 9, segmentOf(5, 2))
		}
		if _, err := buckets.ReplaceOne(t.Context(), withID(9), segment, options.Replace().SetUpsert(true)); err != nil {
			t.Fatal(err)
		}
	}
	raw := func(d bson.D) bson.Raw {
		b, err := bson.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	old, present, later := about(1, 1, compactedBy(5, 1)), about(2, 2, compactedBy(5, 2)), about(3, 3, compactedBy(5, 3))
	if _, err := buckets.InsertMany(t.Context(), []any{old, present}); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		documents []bson.D
		frozen    bool // compaction 2 was still unfinished when they were read
		want      bool
	}{
		"nothing happens":       {[]bson.D{old, present, about(4, 4)}, true, true},
		"a compaction is over":  {[]bson.D{old}, false, false},
		"a compaction has come": {[]bson.D{old, later}, true, false},
	} {
		freeze(true)
		calm, err := beginCalm(t.Context(), buckets)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range c.documents {
			calm.counts(raw(d))
		}
		freeze(c.frozen)
		if got, err := calm.end(t.Context()); err != nil || got != c.want {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

// shownStage makes a topic with ten readings, of which seven are committed, and an empty collection on a server.
func shownStage(t *testing.T) (Source, *mongo.Collection) {
	t.Helper()
	server, err := embedded.StartKafka(kfake.SeedTopics(1, "events"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	database := harness.EmbeddedMongo(t)
	k, err := DialKafka(server.Brokers())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.Close)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	producer := harness.NewProducer(server.Brokers(), "events")
	fates := map[string]events.Fate{}
	for i := range 10 {
		e := events.Of(events.Reading{Time: opened + int64(i), Meta: "m"})
		fates[string(e.Value)] = e.Fate
		if err := producer.Send(ctx, e); err != nil {
			t.Fatal(err)
		}
	}
	if err := producer.Close(); err != nil {
		t.Fatal(err)
	}
	found, _, err := k.Topic(ctx, "events")
	if err != nil {
		t.Fatal(err)
	}
	former := topic.ID
	t.Cleanup(func() { topic.ID = former })
	topic.ID = found.ID // the documents contain it
	commit(ctx, t, k, 7)
	client, err := mongo.Connect(options.Client().ApplyURI(database.URI()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Disconnect(context.Background()) })
	fate := func(value []byte) (events.Fate, bool) {
		f, ok := fates[string(value)]
		return f, ok
	}
	s := Source{Kafka: k, MongoURI: database.URI(), Database: "db", Topic: "events", Group: "g", Fate: fate}
	return s, client.Database("db").Collection("events.buckets")
}

// commit commits an offset of partition 0.
func commit(ctx context.Context, t *testing.T, k *Kafka, offset int64) {
	t.Helper()
	request := kmsg.NewPtrOffsetCommitRequest()
	request.Group, request.Generation = "g", -1
	of := kmsg.NewOffsetCommitRequestTopic()
	of.Topic = "events"
	partition := kmsg.NewOffsetCommitRequestTopicPartition()
	partition.Offset = offset
	of.Partitions = append(of.Partitions, partition)
	request.Topics = append(request.Topics, of)
	if _, err := request.RequestWith(ctx, k.client); err != nil {
		t.Fatal(err)
	}
}
