package main

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"waterwheel/e2e/check"
	"waterwheel/internal/cli/text"
)

// show compares the stored documents with the produced records, and prints the result. kept reports whether the demo goes on
// afterwards.
func (s *stage) show(ctx context.Context, kept bool) error {
	report, err := check.Run(ctx, s.source())
	if err != nil {
		return err
	}
	s.showTable(report)
	if err := s.showMachine(ctx); err != nil {
		return err
	}
	if err := s.showRollups(ctx); err != nil {
		return err
	}
	if err := check.WithDatabase(ctx, s.servers.MongoURI, databaseName, func(d *mongo.Database) error { return s.showBucket(ctx, d) }); err != nil {
		return err
	}
	if !kept {
		s.out.line("\nmake demo DEMOFLAGS=-keep leaves it running at the end, to look around: status page, database, topic.")
	}
	problem := report.Err()
	if problem != nil {
		s.out.line("\n%s\n%v", s.out.paint(red, "What is stored is not what was produced:"), problem)
	}
	s.out.line("\ndemo: stored %d, skipped %d, dead letters %d, missing %d, doubled %d",
		report.Stored, s.recognised+s.readTwice+report.Tombstones, report.DeadLetterCount(), report.Missing, report.Doubled)
	if problem != nil {
		return fmt.Errorf("the promise is broken: %d missing, %d doubled, %d faults", report.Missing, report.Doubled, report.FaultCount)
	}
	return nil
}

// showTable prints the figures of the run.
func (s *stage) showTable(r *check.Report) {
	s.out.title("What became of every record")
	row := func(name string, n int, format string, args ...any) {
		s.out.line("  %-14s %s   %s", name, s.out.paint(bold, fmt.Sprintf("%6s", text.Grouped(int64(n)))), fmt.Sprintf(format, args...))
	}
	row("produced", r.Records, "records in %d partitions", partitions)
	row("stored", r.Stored, "of %s valid measurements, each in exactly one bucket", text.Grouped(int64(r.Valid)))
	row("skipped", s.recognised+s.readTwice+r.Tombstones, "%s again after the crash, %s after the reset, %d tombstones",
		text.Grouped(int64(s.recognised)), text.Grouped(int64(s.readTwice)), r.Tombstones)
	row("dead letters", r.DeadLetterCount(), "bad records, by reason:")
	for reasons := range slices.Chunk(slices.Sorted(maps.Keys(r.DeadLetters)), 3) {
		note := ""
		for _, reason := range reasons {
			note += fmt.Sprintf("%3d %-18s", r.DeadLetters[reason], reason)
		}
		s.out.line("%14s%s", "", strings.TrimRight(note, " "))
	}
	row("buckets", r.Buckets, "documents in %s.%s.buckets", databaseName, topicName)
	row("writes", r.Writes, "%.1f measurements per write", float64(r.Stored)/float64(max(1, r.Writes)))
	verdict := s.out.paint(green, "as promised")
	if r.Err() != nil {
		verdict = s.out.paint(red, "the promise is broken")
	}
	row("missing", r.Missing, "%s", verdict)
	row("doubled", r.Doubled, "%s", verdict)
}

// command runs a command of the program, and shows it with its output.
func (s *stage) command(ctx context.Context, args ...string) error {
	s.out.line("%s", s.out.paint(dim, "$ waterwheel "+strings.Join(args, " ")))
	command := exec.CommandContext(ctx, s.binary, args...)
	command.Stdout, command.Stderr = s.out.file, os.Stderr // the program itself asks whether it writes to a terminal
	command.Env = os.Environ()
	for name, value := range s.settings {
		command.Env = append(command.Env, name+"="+value)
	}
	if err := command.Run(); err != nil {
		return fmt.Errorf("running waterwheel %s: %w", args[0], err)
	}
	return nil
}

// showMachine draws the load of this machine's processors, before and after the crash.
func (s *stage) showMachine(ctx context.Context) error {
	s.out.title("This machine's processors, in percent")
	from, to := s.begin.UTC().Truncate(time.Second), s.begin.UTC().Add(stopAfter+time.Second).Truncate(time.Second)
	err := s.command(ctx, "query", topicName, "kind=cpu", "--from", from.Format(time.RFC3339), "--to", to.Format(time.RFC3339), "--plot", "used")
	s.out.line("%s", s.out.paint(red, "SIGKILL at "+s.killed.UTC().Format(time.TimeOnly)))
	return err
}

// showRollups prints the totals of the tank's hours, and compares all rollups with the produced records.
func (s *stage) showRollups(ctx context.Context) error {
	rows, difference, err := check.Rollups(ctx, s.source())
	if err != nil {
		return err
	}
	if difference != "" {
		return fmt.Errorf("the rollups are not the totals of the measurements: %s", difference)
	}
	s.out.title("A tank's level in percent, by hour, from rollups")
	last := fmt.Sprintf("%dh", tankHours)
	if err := s.command(ctx, "query", topicName, "sensor="+tankName, "--last", last, "--every", "1h", "--agg", "min,mean,max", "level"); err != nil {
		return err
	}
	s.out.line("%s each of %s rows by minute, hour and day is the total of its measurements", s.out.paint(green, "✓"), text.Grouped(int64(rows)))
	return nil
}

// showBucket prints the largest bucket of a sensor as it is stored, a line for each field.
func (s *stage) showBucket(ctx context.Context, database *mongo.Database) error {
	largest := options.FindOne().SetSort(bson.D{{Key: "control.count", Value: -1}})
	bucket, err := database.Collection(topicName+".buckets").FindOne(ctx, bson.D{{Key: "meta.sensor", Value: "s-01"}}, largest).Raw()
	if err != nil {
		return fmt.Errorf("reading a bucket: %w", err)
	}
	lines, err := fieldLines(bucket, "")
	if err != nil {
		return fmt.Errorf("showing a bucket: %w", err)
	}
	s.out.title("One bucket of a sensor, as it is stored")
	for _, line := range lines {
		s.out.line("%s", text.Shorten(line, width))
	}
	return nil
}

// fieldLines returns a line for each field of a bucket, in Extended JSON. The fields of control, of its source, and of data have
// lines of their own. path is the path of document, with a dot at its end.
func fieldLines(document bson.Raw, path string) (lines []string, err error) {
	elements, err := document.Elements()
	if err != nil {
		return nil, err
	}
	for _, e := range elements {
		name := path + e.Key()
		if inner, ok := e.Value().DocumentOK(); ok && slices.Contains([]string{"control", "control.source", "data"}, name) {
			further, err := fieldLines(inner, name+".")
			if err != nil {
				return nil, err
			}
			lines = append(lines, further...)
			continue
		}
		value, err := bson.MarshalExtJSON(bson.D{{Key: "", Value: e.Value()}}, false, false)
		if err != nil {
			return nil, err
		}
		value = bytes.TrimSuffix(bytes.TrimPrefix(value, []byte(`{"":`)), []byte("}"))
		lines = append(lines, fmt.Sprintf("%-24s %s", name, value))
	}
	return lines, nil
}
