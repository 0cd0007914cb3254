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
	// Report is the report of the independent check. For the naive consumer it counts only records and measurements.
	Report *check.Report
	// Faults describes every event that must not happen.
	Faults []string
}

// Err is nil when every measurement is stored once and nothing else went wrong.
func (r *Result) Err() error {
	err := r.Report.Err()
	if len(r.Faults) > 0 {
		err = errors.Join(errors.New(strings.Join(r.Faults, "\n\t")), err)
	}
	if err != nil {
		return fmt.Errorf("%v\n\t%w", r, err)
	}
	return nil
}

// Disturbances returns the number of disturbances.
func (r *Result) Disturbances() int {
	n := 0
	for _, times := range r.Actions {
		n += times
	}
	return n
}

// String returns the result in one line, without the report.
func (r *Result) String() string {
	meanwhile := ""
	for _, of := range []struct {
		what string
		n    int
	}{
		{"chunks moved", r.ChunksMoved},
		{"looks at what is shown", r.Looks},
		{"commands of an operator", r.Commands},
		{"rows of rollups compared", r.Rows},
	} {
		if of.n > 0 {
			meanwhile += fmt.Sprintf(", %d %s", of.n, of.what)
		}
	}
	return fmt.Sprintf("%d records in %.0fs (%.0f/s), %d disturbances%s, the rest stored after %.0fs; %d faults; "+
		"the database held a write for up to %.1fs (write grace period %.0fs)",
		r.Produced, r.Seconds, float64(r.Produced)/r.Seconds, r.Disturbances(), meanwhile, r.DrainSeconds, len(r.Faults),
		r.SlowestAnswer.Seconds(), r.WriteGrace.Seconds())
}

// judge compares the stored measurements with the records, and fills the result.
func (r *run) judge(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	if r.options.Naive {
		return r.judgeNaive(ctx)
	}
	if r.result.Report, err = check.Run(ctx, r.source()); err != nil {
		return err
	}
	return r.judgeRollups(ctx)
}

// judgeNaive counts how often each measurement was inserted. All must be stored.
func (r *run) judgeNaive(ctx context.Context) error {
	var documents []struct {
		Source struct {
			Partition int32
			Offset    int64
			Part      int
		}
	}
	err := check.WithDatabase(ctx, r.options.MongoURI, r.databaseName(), func(database *mongo.Database) error {
		cursor, err := database.Collection(r.topic).Find(ctx, bson.D{}, options.Find().SetProjection(bson.D{{Key: "source", Value: 1}}))
		if err != nil {
			return err
		}
		return cursor.All(ctx, &documents)
	})
	if err != nil {
		return fmt.Errorf("reading the documents: %w", err)
	}
	stored := map[check.Place]int{}
	for _, d := range documents {
		stored[check.Place{Partition: d.Source.Partition, Position: check.Position{Offset: d.Source.Offset, Part: d.Source.Part}}]++
	}
	topic, _, err := r.kafka.Topic(ctx, r.topic)
	if err != nil {
		return err
	}
	records, err := r.kafka.Read(ctx, topic)
	if err != nil {
		return err
	}
	report := &check.Report{Records: len(records)}
	for _, record := range records {
		fate, _ := r.load.book.Fate(record.Value)
		for part := range fate.Parts {
			report.Valid++
			switch stored[check.Place{Partition: record.Partition, Position: check.Position{Offset: record.Offset, Part: part}}] {
			case 0:
				report.Missing++
			case 1:
				report.Stored++
			default:
				report.Doubled++
			}
		}
	}
	r.result.Report = report
	return nil
}
