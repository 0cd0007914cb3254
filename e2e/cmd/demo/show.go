package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"waterwheel/e2e/check"
)

// show compares the stored documents with the produced records, and prints the result. kept reports whether the demo goes on
// afterwards.
func (s *stage) show(ctx context.Context, kept bool) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	report, err := check.Run(ctx, check.Source{
		Kafka: s.reader, MongoURI: s.mongo.URI(), Database: databaseName, Topic: topicName, Group: groupName, Fate: s.book.Fate,
	})
	if err != nil {
		return err
	}
	client, err := mongo.Connect(options.Client().ApplyURI(s.mongo.URI()))
	if err != nil {
		return fmt.Errorf("connecting to read back: %w", err)
	}
	defer client.Disconnect(context.WithoutCancel(ctx))
	buckets := client.Database(databaseName).Collection(topicName + ".buckets")

	s.showTable(report)
	if err := s.showProcessors(ctx, buckets); err != nil {
		return err
	}
	if err := s.showMinutes(ctx, client.Database(databaseName)); err != nil {
		return err
	}
	if err := s.showBucket(ctx, buckets); err != nil {
		return err
	}
	if !kept {
		s.out.line("\nmake demo DEMOFLAGS=-keep leaves it running at the end, to look around: status page, database, topic.")
	}
	problem := report.Err()
	if problem != nil {
		s.out.line("\n%s\n%v", s.out.paint(red, "What is stored is not what was produced:"), problem)
	}
	s.out.line("\ndemo: stored %d, skipped %d, letters %d, missing %d, doubled %d",
		report.Stored, s.recognised+s.readTwice+report.Tombstones, report.LetterCount(), report.Missing, report.Doubled)
	if problem != nil {
		return fmt.Errorf("the promise is broken: %d missing, %d doubled, %d faults", report.Missing, report.Doubled, report.FaultCount)
	}
	return nil
}

// showTable prints the figures of the run.
func (s *stage) showTable(r *check.Report) {
	s.out.title("What became of every record")
	row := func(name string, n int, note string) {
		s.out.line("  %-22s %s   %s", name, s.out.paint(bold, fmt.Sprintf("%8s", grouped(n))), s.out.paint(dim, note))
	}
	row("produced", r.Records, fmt.Sprintf("records in %d partitions", partitions))
	row("stored", r.Stored, fmt.Sprintf("of %s valid measurements, each in exactly one bucket", grouped(r.Valid)))
	row("skipped", s.recognised+s.readTwice+r.Tombstones, fmt.Sprintf("came again: %s after the crash, %s after the reset",
		grouped(s.recognised), grouped(s.readTwice)))
	s.out.line("%36s%s", "", s.out.paint(dim, fmt.Sprintf("and %d tombstones", r.Tombstones)))
	row("letters", r.LetterCount(), "bad records, by reason:")
	for line := range slices.Chunk(reasonCounts(r.Letters), 3) {
		s.out.line("%36s%s", "", s.out.paint(yellow, strings.TrimRight(strings.Join(line, ""), " ")))
	}
	row("buckets", r.Buckets, fmt.Sprintf("documents in %s.%s.buckets", databaseName, topicName))
	row("writes", r.Writes, fmt.Sprintf("%.1f measurements per write", float64(r.Stored)/float64(max(1, r.Writes))))
	verdict := s.out.paint(green, "as promised")
	if r.Err() != nil {
		verdict = s.out.paint(red, "the promise is broken")
	}
	s.out.line("  %-22s %8d   %s", "missing", r.Missing, verdict)
	s.out.line("  %-22s %8d   %s", "doubled", r.Doubled, verdict)
}

// reasonCounts returns the numbers of letters by reason, padded to columns.
func reasonCounts(letters map[string]int) []string {
	var counts []string
	for _, reason := range slices.Sorted(maps.Keys(letters)) {
		counts = append(counts, fmt.Sprintf("%-20s", fmt.Sprintf("%d %s", letters[reason], reason)))
	}
	return counts
}
