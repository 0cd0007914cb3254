package check

import (
	"context"
	"fmt"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"waterwheel/e2e/events"
)

// Source says what to judge.
type Source struct {
	Kafka    *Kafka
	MongoURI string
	// Database and Topic; the buckets are in the collection <topic>.buckets, the letters in the topic <topic>.dlq.
	Database, Topic string
	Group           string
	// Fate tells what must become of a record of this value; false: nobody made it.
	Fate func(value []byte) (events.Fate, bool)
}

// batchBuckets is how many buckets are asked for at once: some servers send all that one message can hold, and more.
const batchBuckets = 1000

// place is a measurement's place in a topic.
type place struct {
	partition int32
	Position
}

// judgement is a check on its way.
type judgement struct {
	source   Source
	topic    Topic
	records  map[place]Record // by offset, part 0
	readings map[place]*events.Reading
	letters  map[place]letter // expected
	buckets  map[place]int    // how many buckets list a measurement
	report   *Report
}

// Run compares everything stored with everything produced. The error says that the check could not be made; what it
// found is in the report.
func Run(ctx context.Context, s Source) (*Report, error) {
	topic, ok, err := s.Kafka.Topic(ctx, s.Topic)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, fmt.Errorf("there is no topic %s", s.Topic)
	}
	j := &judgement{
		source: s, topic: topic, report: &Report{Letters: map[string]int{}},
		records: map[place]Record{}, readings: map[place]*events.Reading{}, letters: map[place]letter{}, buckets: map[place]int{},
	}
	for _, step := range []func(context.Context) error{j.readTopic, j.readBuckets, j.readLetters, j.readCommits} {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	j.countStored()
	return j.report, nil
}

// readTopic learns from the log what must be stored and what must be a letter, and where.
func (j *judgement) readTopic(ctx context.Context) error {
	records, err := j.source.Kafka.Read(ctx, j.topic)
	if err != nil {
		return err
	}
	j.report.Records = len(records)
	for _, r := range records {
		at := place{r.Partition, Position{Offset: r.Offset}}
		j.records[at] = r
		fate, ok := j.source.Fate(r.Value)
		switch {
		case !ok:
			j.report.fault("record %d of partition %d was made by nobody", r.Offset, r.Partition)
		case fate.Tombstone():
			j.report.Tombstones++
		case fate.Reason != "":
			j.letters[place{r.Partition, Position{r.Offset, wholeRecord}}] = letter{fate.Reason, r.Value}
		default:
			j.expectParts(at, fate)
		}
	}
	return nil
}

// expectParts notes what must become of the elements of a record.
func (j *judgement) expectParts(at place, fate events.Fate) {
	for i, part := range fate.Parts {
		at.Part = i
		if part.Reading != nil {
			j.readings[at] = part.Reading
		} else {
			j.letters[at] = letter{part.Reason, part.Value}
		}
	}
}

// readBuckets reads every bucket of the collection and compares it with the readings it says it holds.
func (j *judgement) readBuckets(ctx context.Context) error {
	client, err := mongo.Connect(options.Client().ApplyURI(j.source.MongoURI))
	if err != nil {
		return fmt.Errorf("connecting to read the buckets: %w", err)
	}
	defer client.Disconnect(context.WithoutCancel(ctx))
	cursor, err := client.Database(j.source.Database).Collection(j.source.Topic+".buckets").Find(ctx, bson.D{}, options.Find().SetBatchSize(batchBuckets))
	if err != nil {
		return fmt.Errorf("reading the buckets: %w", err)
	}
	defer cursor.Close(ctx)
	for cursor.Next(ctx) {
		j.report.Buckets++
		b, err := decodeBucket(cursor.Current)
		if err != nil {
			j.report.fault("bucket %v: %v", b.ID, err)
			continue
		}
		if b.Control.Closed {
			j.report.Closed++
		}
		j.report.Writes += len(b.Control.Source.Offsets)
		j.judgeBucket(b)
	}
	if err := cursor.Err(); err != nil {
		return fmt.Errorf("reading the buckets: %w", err)
	}
	return nil
}

// judgeBucket looks the bucket's measurements up by their positions.
func (j *judgement) judgeBucket(b *bucket) {
	faults := b.faults(j.topic)
	readings := make([]*events.Reading, 0, len(b.positions))
	for _, p := range b.positions {
		at := place{b.Control.Source.Partition, p}
		reading, ok := j.readings[at]
		if !ok {
			j.report.Unknown++
			faults = append(faults, fmt.Sprintf("it holds offset %d part %d, which must not be stored", p.Offset, p.Part))
			continue
		}
		j.buckets[at]++
		readings = append(readings, reading)
	}
	if len(faults) == 0 {
		faults = b.compareWith(readings)
	}
	const listed = 3 // what is wrong with a bucket tends to be wrong all over
	for _, f := range faults[:min(len(faults), listed)] {
		j.report.fault("bucket %s: %s", b.ID.Hex(), f)
	}
	j.report.FaultCount += max(0, len(faults)-listed)
}

// countStored counts in how many buckets each valid measurement is.
func (j *judgement) countStored() {
	j.report.Valid = len(j.readings)
	for at := range j.readings {
		switch n := j.buckets[at]; n {
		case 0:
			j.report.Missing++
			j.report.fault("missing: partition %d offset %d part %d", at.partition, at.Offset, at.Part)
		case 1:
			j.report.Stored++
		default:
			j.report.Doubled++
			j.report.fault("doubled: partition %d offset %d part %d is in %d buckets", at.partition, at.Offset, at.Part, n)
		}
	}
}

// readCommits compares the group's commits with the ends of the log.
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
