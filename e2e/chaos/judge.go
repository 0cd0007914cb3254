package chaos

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"waterwheel/e2e/check"
)

// Result is the outcome of a run.
type Result struct {
	// Produced is the number of records produced in Seconds. DrainSeconds is the time the consumers needed for the rest at the
	// end.
	Produced              int
	Seconds, DrainSeconds float64
	// SlowestAnswer is the longest time the database held a small write that nothing disturbed. Consumers rely on it being less
	// than Grace, which is two write timeouts, or on a database that honours maxTimeMS.
	SlowestAnswer, WriteGrace time.Duration
	// Looks counts the looks of a reader during the disturbances. ChunksMoved counts the chunks that moved to another shard.
	Looks, ChunksMoved int
	// Commands counts the commands of operators that were completed during the disturbances.
	Commands int
	// Rows counts the rows of rollups that were compared with the records.
	Rows int
	// Actions counts the disturbances by name.
	Actions map[string]int
	// Valid counts the measurements that must be stored. Stored of them are in exactly one place, Missing in none, Doubled in
	// several.
	Valid, Stored, Missing, Doubled int
	// Report is the report of the independent check. It is nil for the naive consumer. Faults includes the errors it finds.
	Report *check.Report
	// Faults describes every event that must not happen.
	Faults []string
}

// Err is nil when every measurement is stored once and nothing else went wrong.
func (r *Result) Err() error {
	if len(r.Faults) == 0 && r.Missing == 0 && r.Doubled == 0 {
		return nil
	}
	return errors.New(strings.Join(append([]string{r.String()}, r.Faults...), "\n\t"))
}

// String returns the result in one line.
func (r *Result) String() string {
	disturbances := 0
	for _, n := range r.Actions {
		disturbances += n
	}
	beside := ""
	if r.ChunksMoved > 0 {
		beside += fmt.Sprintf(", %d chunks moved", r.ChunksMoved)
	}
	if r.Looks > 0 {
		beside += fmt.Sprintf(", %d looks at what is shown", r.Looks)
	}
	if r.Commands > 0 {
		beside += fmt.Sprintf(", %d commands of an operator", r.Commands)
	}
	if r.Rows > 0 {
		beside += fmt.Sprintf(", %d rows of rollups compared", r.Rows)
	}
	return fmt.Sprintf("%d records in %.0fs (%.0f/s), %d disturbances%s, the rest stored after %.0fs: "+
		"%d measurements, stored once %d, missing %d, doubled %d; %d faults; the database held a write for up to %.1fs (write grace period %.0fs)",
		r.Produced, r.Seconds, float64(r.Produced)/r.Seconds, disturbances, beside, r.DrainSeconds,
		r.Valid, r.Stored, r.Missing, r.Doubled, len(r.Faults), r.SlowestAnswer.Seconds(), r.WriteGrace.Seconds())
}

// judge compares the stored measurements with the records, and fills the result.
func (r *run) judge(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	if r.options.Naive {
		return r.judgeNaive(ctx)
	}
	if err := r.judgePast(ctx); err != nil {
		return err
	}
	report, err := check.Run(ctx, r.source())
	if err != nil {
		return err
	}
	result := &r.result
	result.Report = report
	result.Valid += report.Valid
	result.Stored += report.Stored
	result.Missing += report.Missing
	result.Doubled += report.Doubled
	if err := report.Err(); err != nil {
		result.Faults = append(result.Faults, err.Error())
	}
	return r.judgeRollups(ctx)
}

// inDatabase calls do with the run's database.
func (r *run) inDatabase(ctx context.Context, do func(*mongo.Database) error) error {
	return check.WithDatabase(ctx, r.options.MongoURI, r.databaseName(), do)
}

// judgeNaive counts how often each measurement was inserted. All must be stored.
func (r *run) judgeNaive(ctx context.Context) error {
	stored := map[check.Place]int{}
	err := r.inDatabase(ctx, func(database *mongo.Database) error {
		cursor, err := database.Collection(r.topic).Find(ctx, bson.D{}, options.Find().SetProjection(bson.D{{Key: "source", Value: 1}}))
		if err != nil {
			return err
		}
		defer cursor.Close(ctx)
		for cursor.Next(ctx) {
			var document struct {
				Source struct {
					Partition int32
					Offset    int64
					Part      int
				}
			}
			if err := cursor.Decode(&document); err != nil {
				return err
			}
			s := document.Source
			stored[check.Place{Partition: s.Partition, Position: check.Position{Offset: s.Offset, Part: s.Part}}]++
		}
		return cursor.Err()
	})
	if err != nil {
		return fmt.Errorf("reading the documents: %w", err)
	}
	topic, _, err := r.kafka.Topic(ctx, r.topic)
	if err != nil {
		return err
	}
	records, err := r.kafka.Read(ctx, topic)
	if err != nil {
		return err
	}
	r.count(records, stored, func(check.Record) bool { return true })
	return nil
}

// judgePast judges the buckets of topics that were deleted. Committed records must be stored. It then deletes these buckets, so that
// the check of the present topic finds only buckets of this topic.
func (r *run) judgePast(ctx context.Context) error {
	if len(r.past) == 0 {
		return nil
	}
	return r.inDatabase(ctx, func(database *mongo.Database) error {
		for _, past := range r.past {
			id := bson.D{{Key: "control.source.topicId", Value: bson.Binary{Subtype: bson.TypeBinaryUUID, Data: past.topic.ID[:]}}}
			stored := map[check.Place]int{}
			if err := check.Listed(ctx, database, r.topic, id, func(at check.Place, _ bson.ObjectID) { stored[at]++ }); err != nil {
				return err
			}
			r.count(past.records, stored, func(record check.Record) bool { return record.Offset < past.committed[record.Partition] })
			if _, err := database.Collection(r.topic+".buckets").DeleteMany(ctx, id); err != nil {
				return fmt.Errorf("deleting the buckets of a past topic: %w", err)
			}
		}
		return nil
	})
}

// count adds records to the result. A measurement must be stored if its record must, and at most once in any case.
func (r *run) count(records []check.Record, stored map[check.Place]int, must func(check.Record) bool) {
	result := &r.result
	for _, record := range records {
		fate, _ := r.load.book.Fate(record.Value)
		for part := range fate.Parts {
			at := check.Place{Partition: record.Partition, Position: check.Position{Offset: record.Offset, Part: part}}
			switch n := stored[at]; {
			case n > 1:
				result.Doubled++
			case n == 1:
				result.Stored++
			case must(record):
				result.Missing++
			default:
				continue // no consumer had read it
			}
			result.Valid++
		}
	}
}
