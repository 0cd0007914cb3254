// Package check judges the stored data. It reads the source topic, the dead-letter topic, the committed offsets and the buckets
// directly. It compares them with the expectations of the events' maker. It shares no code with the program it judges. It has its
// own Kafka client, and its own code for buckets, positions, minima and maxima.
//
//	check.go       the comparison: records, readings, buckets, commits
//	kafka.go       topics and offsets; deadletters.go: dead letters
//	database.go    queries; bucket.go: stored documents, decoded
//	rules.go       what a document must hold: values, extremes, types
//	compaction.go  which documents count while segments are compacted
//	shown.go       what a reader sees at one moment
//	rollups.go     rows of rollups
//	report.go      the findings
package check

import (
	"context"
	"fmt"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"waterwheel/e2e/events"
)

// Source says where the records and the stored documents are.
type Source struct {
	Kafka    *Kafka
	MongoURI string
	// Topic is also the name of the series. The buckets are in the collection <topic>.buckets of Database, the letters in the
	// topic <topic>.dlq.
	Database, Topic string
	Group           string
	// Fate returns what must become of a record with this value. It returns false if the events' maker did not make the value.
	Fate func(value []byte) (events.Fate, bool)
}

// Place is the place of a measurement in a topic.
type Place struct {
	Partition int32
	Position
}

// String names the place in a message.
func (p Place) String() string {
	return fmt.Sprintf("partition %d offset %d part %d", p.Partition, p.Offset, p.Part)
}

// judgement is a check in progress.
type judgement struct {
	source      Source
	topic       Topic
	records     map[Place]Record // by offset, part 0
	readings    map[Place]*events.Reading
	deadLetters map[Place]deadLetter // the expected letters
	buckets     map[Place]int        // number of buckets and segments that store a measurement
	report      *Report
}

// Run compares all stored documents with all produced records. The report holds the findings. An error means that the check could
// not be made.
func Run(ctx context.Context, s Source) (*Report, error) {
	j, err := s.expectations(ctx)
	if err != nil {
		return nil, err
	}
	for _, step := range []func(context.Context) error{j.readBuckets, j.readDeadLetters, j.readCommits} {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	j.countStored()
	return j.report, nil
}

// topicNow returns the present metadata of the topic.
func (s Source) topicNow(ctx context.Context) (Topic, error) {
	topic, ok, err := s.Kafka.Topic(ctx, s.Topic)
	if err == nil && !ok {
		err = fmt.Errorf("there is no topic %s", s.Topic)
	}
	return topic, err
}

// expectations begins a check of the topic as it is now. It reads the log and records which measurements must be stored, which
// must be letters, and their places.
func (s Source) expectations(ctx context.Context) (*judgement, error) {
	topic, err := s.topicNow(ctx)
	if err != nil {
		return nil, err
	}
	records, err := s.Kafka.Read(ctx, topic)
	if err != nil {
		return nil, err
	}
	j := &judgement{
		source: s, topic: topic, report: &Report{Records: len(records), DeadLetters: map[string]int{}},
		records: map[Place]Record{}, readings: map[Place]*events.Reading{}, deadLetters: map[Place]deadLetter{}, buckets: map[Place]int{},
	}
	for _, r := range records {
		at := Place{r.Partition, Position{Offset: r.Offset}}
		j.records[at] = r
		fate, ok := s.Fate(r.Value)
		switch {
		case !ok:
			j.report.fault("record %d of partition %d was made by nobody", r.Offset, r.Partition)
		case fate.Tombstone():
			j.report.Tombstones++
		case fate.Reason != "":
			j.deadLetters[Place{r.Partition, Position{r.Offset, wholeRecord}}] = deadLetter{fate.Reason, r.Value}
		default:
			j.expectParts(at, fate)
		}
	}
	return j, nil
}

// expectParts records what must become of the elements of a record.
func (j *judgement) expectParts(at Place, fate events.Fate) {
	for i, part := range fate.Parts {
		at.Part = i
		if part.Reading != nil {
			j.readings[at] = part.Reading
		} else {
			j.deadLetters[at] = deadLetter{part.Reason, part.Value}
		}
	}
}

// readBuckets reads every bucket and segment of the collection, and compares it with the readings it lists. It reads all of them
// again if a compaction in the meantime makes it unclear which documents count.
func (j *judgement) readBuckets(ctx context.Context) error {
	return j.source.withBuckets(ctx, func(buckets *mongo.Collection) error {
		for range calmTries {
			before := *j.report
			sure, err := j.readOnce(ctx, buckets)
			if sure || err != nil {
				return err
			}
			*j.report = before
			clear(j.buckets)
		}
		return errRestless
	})
}

// readOnce reads every stored document. It returns false if the documents may have changed meanwhile.
func (j *judgement) readOnce(ctx context.Context, buckets *mongo.Collection) (bool, error) {
	c, err := beginCalm(ctx, buckets)
	if err != nil {
		return false, err
	}
	if err := each(ctx, buckets, bson.D{}, nil, func(document bson.Raw) error {
		j.take(document, c.counts(document))
		return nil
	}); err != nil {
		return false, err
	}
	return c.end(ctx)
}

// take judges one document. counts reports whether its measurements count as stored there.
func (j *judgement) take(document bson.Raw, counts bool) {
	b, err := decodeBucket(document)
	switch {
	case b.Control.Segment == nil:
		j.report.Buckets++
	case counts:
		j.report.Segments++
	default:
		j.report.Ended++
	}
	if err != nil {
		j.report.fault("bucket %v: %v", b.ID, err)
		return
	}
	if b.Control.Closed && b.Control.Segment == nil {
		j.report.Closed++
	}
	if b.Control.Compacted == nil {
		j.report.Writes += len(b.Control.Source.Offsets)
	}
	j.judgeBucket(b, counts)
}

// judgeBucket compares the bucket with the readings at its positions.
func (j *judgement) judgeBucket(b *bucket, counts bool) {
	b.checkControl(j.topic)
	readings := make([]*events.Reading, 0, len(b.positions))
	b.eachPlace(func(at Place) {
		reading, ok := j.readings[at]
		if !ok {
			j.report.Unknown++
			b.wrong("it holds %v, which must not be stored", at)
			return
		}
		if counts {
			j.buckets[at]++
		}
		readings = append(readings, reading)
	})
	if len(b.faults) == 0 {
		b.compareWith(readings)
	}
	const listed = 3 // a faulty bucket tends to have many faults
	for _, f := range b.faults[:min(len(b.faults), listed)] {
		j.report.fault("bucket %s: %s", b.ID.Hex(), f)
	}
	j.report.FaultCount += max(0, len(b.faults)-listed)
}

// countStored counts for each valid measurement the buckets and segments that store it.
func (j *judgement) countStored() {
	j.report.Valid = len(j.readings)
	for at := range j.readings {
		switch n := j.buckets[at]; n {
		case 0:
			j.report.Missing++
			j.report.fault("missing: %v", at)
		case 1:
			j.report.Stored++
		default:
			j.report.Doubled++
			j.report.fault("doubled: %v is in %d buckets or segments", at, n)
		}
	}
}

// readCommits compares the group's committed offsets with the ends of the log.
func (j *judgement) readCommits(ctx context.Context) error {
	ends, err := j.source.Kafka.Ends(ctx, j.topic)
	if err != nil {
		return err
	}
	committed, metadata, err := j.source.Kafka.Committed(ctx, j.source.Group, j.topic)
	if err != nil {
		return err
	}
	for p := range ends {
		j.report.Uncommitted += ends[p] - max(committed[p], 0)
		if committed[p] != ends[p] {
			j.report.fault("partition %d: committed %d, the log ends at %d", p, committed[p], ends[p])
		}
		if committed[p] >= 0 && !strings.HasPrefix(metadata[p], "ww1;") {
			j.report.fault("partition %d: the commit's metadata is %q", p, metadata[p])
		}
	}
	return nil
}
