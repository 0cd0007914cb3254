package check

import (
	"context"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"waterwheel/e2e/events"
)

// Shown checks what a reader sees at one moment, while documents are written and compacted. Each measurement below the offsets
// that were committed before must be seen once. Any other must be seen at most once. Shown looks twice, because a reader may read
// segments before buckets, or buckets before segments. The report holds only these counts and faults.
func Shown(ctx context.Context, s Source) (*Report, error) {
	topic, err := s.topicNow(ctx)
	if err != nil {
		return nil, err
	}
	client, err := mongo.Connect(options.Client().ApplyURI(s.MongoURI))
	if err != nil {
		return nil, fmt.Errorf("connecting to read the buckets: %w", err)
	}
	defer client.Disconnect(context.WithoutCancel(ctx))
	buckets := client.Database(s.Database).Collection(s.Topic + ".buckets")

	committed, _, err := s.Kafka.Committed(ctx, s.Group, topic)
	if err != nil {
		return nil, err
	}
	var looks []look
	for _, segmentsFirst := range []bool{true, false} {
		l, err := lookAt(ctx, buckets, topic, segmentsFirst)
		if err != nil {
			return nil, err
		}
		looks = append(looks, l)
	}
	j, err := s.judgement(ctx) // the looks may have seen partitions that were added meanwhile
	if err != nil {
		return nil, err
	}
	for len(committed) < int(j.topic.Partitions) {
		committed = append(committed, -1)
	}
	if err := j.readTopic(ctx); err != nil {
		return nil, err
	}
	report := &Report{DeadLetters: map[string]int{}}
	for i := range looks {
		looks[i].judge(j.readings, committed, report)
	}
	return report, nil
}

// topicNow returns the present metadata of the topic.
func (s Source) topicNow(ctx context.Context) (Topic, error) {
	topic, ok, err := s.Kafka.Topic(ctx, s.Topic)
	if err == nil && !ok {
		err = fmt.Errorf("there is no topic %s", s.Topic)
	}
	return topic, err
}

// look is what a reader sees at one moment.
type look struct {
	what string
	seen map[Place][]bson.ObjectID // documents that show a measurement
	torn []string                  // documents that cannot be read
}

// lookAt reads the documents shown at the present moment, in two queries.
func lookAt(ctx context.Context, buckets *mongo.Collection, topic Topic, segmentsFirst bool) (look, error) {
	now := time.Now()
	l := look{what: "buckets before segments", seen: map[Place][]bson.ObjectID{}}
	if segmentsFirst {
		l.what = "segments before buckets"
	}
	l.what += now.UTC().Format(", at 15:04:05.000")
	for _, segments := range []bool{segmentsFirst, !segmentsFirst} {
		filter := bson.D{{Key: "control.segment", Value: bson.D{{Key: "$exists", Value: segments}}}}
		cursor, err := buckets.Find(ctx, filter, options.Find().SetBatchSize(batchBuckets))
		if err != nil {
			return l, fmt.Errorf("reading what is shown: %w", err)
		}
		for cursor.Next(ctx) {
			l.take(cursor.Current, topic, now.UnixMilli())
		}
		err = cursor.Err()
		_ = cursor.Close(ctx)
		if err != nil {
			return l, fmt.Errorf("reading what is shown: %w", err)
		}
	}
	return l, nil
}

// take records which measurements a document of the topic shows.
func (l *look) take(document bson.Raw, topic Topic, now int64) {
	b, err := decodeBucket(document)
	if err != nil {
		l.torn = append(l.torn, fmt.Sprintf("%v: %v", b.ID, err))
		return
	}
	if string(b.Control.Source.TopicID.Data) != string(topic.ID[:]) || !b.shown(now) {
		return
	}
	for _, p := range b.positions {
		at := Place{b.Control.Source.Partition, p}
		l.seen[at] = append(l.seen[at], b.ID)
	}
}

// judge compares a look with the readings, and adds the result to a report.
func (l *look) judge(readings map[Place]*events.Reading, committed []int64, report *Report) {
	wrong := func(at Place, format string, args ...any) {
		report.fault("%s: partition %d offset %d part %d %s", l.what, at.Partition, at.Offset, at.Part, fmt.Sprintf(format, args...))
	}
	for at := range readings {
		switch n := len(l.seen[at]); {
		case n > 1:
			report.Valid++
			report.Doubled++
			wrong(at, "is shown %d times, by %v", n, l.seen[at])
		case n == 1:
			report.Valid++
			report.Stored++
		case at.Offset < committed[at.Partition]:
			report.Valid++
			report.Missing++
			wrong(at, "is not shown")
		}
	}
	for at := range l.seen {
		if readings[at] == nil {
			report.Unknown++
			wrong(at, "is shown by %v, and must not be", l.seen[at])
		}
	}
	for _, text := range l.torn {
		report.fault("%s: bucket %s", l.what, text)
	}
}
