package check

import (
	"context"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

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
	committed, _, err := s.Kafka.Committed(ctx, s.Group, topic)
	if err != nil {
		return nil, err
	}
	segmentsFirst := look{what: "segments before buckets", seen: map[Place][]bson.ObjectID{}}
	segmentsLast := look{what: "buckets before segments", seen: map[Place][]bson.ObjectID{}}
	err = s.withBuckets(ctx, func(buckets *mongo.Collection) error {
		if err := segmentsFirst.read(ctx, buckets, topic, true); err != nil {
			return err
		}
		return segmentsLast.read(ctx, buckets, topic, false)
	})
	if err != nil {
		return nil, err
	}
	j, err := s.expectations(ctx) // the looks may have seen partitions that were added meanwhile
	if err != nil {
		return nil, err
	}
	for len(committed) < int(j.topic.Partitions) {
		committed = append(committed, -1)
	}
	report := &Report{DeadLetters: map[string]int{}}
	segmentsFirst.judge(j.readings, committed, report)
	segmentsLast.judge(j.readings, committed, report)
	return report, nil
}

// look is what a reader sees at one moment.
type look struct {
	what string
	seen map[Place][]bson.ObjectID // documents that show a measurement
	torn []string                  // documents that cannot be read
}

// read reads the documents shown at the present moment, in two queries.
func (l *look) read(ctx context.Context, buckets *mongo.Collection, topic Topic, segmentsFirst bool) error {
	now := time.Now()
	l.what += now.UTC().Format(", at 15:04:05.000")
	for _, segments := range []bool{segmentsFirst, !segmentsFirst} {
		err := each(ctx, buckets, bson.D{exists("control.segment", segments)}, nil, func(document bson.Raw) error {
			l.take(document, topic, now.UnixMilli())
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// take records which measurements a document of the topic shows.
func (l *look) take(document bson.Raw, topic Topic, now int64) {
	b, err := decodeBucket(document)
	if err != nil {
		l.torn = append(l.torn, fmt.Sprintf("%v: %v", b.ID, err))
		return
	}
	if string(b.Control.Source.TopicID.Data) == string(topic.ID[:]) && b.shown(now) {
		b.eachPlace(func(at Place) { l.seen[at] = append(l.seen[at], b.ID) })
	}
}

// judge compares a look with the readings, and adds the result to a report.
func (l *look) judge(readings map[Place]*events.Reading, committed []int64, report *Report) {
	for at := range readings {
		n := len(l.seen[at])
		if n > 0 || at.Offset < committed[at.Partition] {
			report.Valid++
		}
		switch {
		case n > 1:
			report.Doubled++
			report.fault("%s: %v is shown %d times, by %v", l.what, at, n, l.seen[at])
		case n == 1:
			report.Stored++
		case at.Offset < committed[at.Partition]:
			report.Missing++
			report.fault("%s: %v is not shown", l.what, at)
		}
	}
	for at := range l.seen {
		if readings[at] == nil {
			report.Unknown++
			report.fault("%s: %v is shown by %v, and must not be", l.what, at, l.seen[at])
		}
	}
	for _, text := range l.torn {
		report.fault("%s: bucket %s", l.what, text)
	}
}
