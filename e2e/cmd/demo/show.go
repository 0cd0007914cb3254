package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"waterwheel/e2e/check"
	"waterwheel/internal/cli/plot"
	"waterwheel/reader"
)

// show compares the stored documents with the produced records, and prints the result. kept reports whether the demo goes on
// afterwards.
func (s *stage) show(ctx context.Context, kept bool) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	source := check.Source{
		Kafka: s.reader, MongoURI: s.mongo.URI(), Database: databaseName, Topic: topicName, Group: groupName, Fate: s.book.Fate,
	}
	report, err := check.Run(ctx, source)
	if err != nil {
		return err
	}
	client, err := mongo.Connect(options.Client().ApplyURI(s.mongo.URI()))
	if err != nil {
		return fmt.Errorf("connecting to read back: %w", err)
	}
	defer client.Disconnect(context.WithoutCancel(ctx))
	s.showTable(report)
	series, err := reader.Open(ctx, client.Database(databaseName), topicName)
	if err != nil {
		return err
	}
	if err := s.showProcessors(ctx, series); err != nil {
		return err
	}
	if err := s.showMinutes(ctx, series, source); err != nil {
		return err
	}
	if err := s.showBucket(ctx, client.Database(databaseName).Collection(topicName+".buckets")); err != nil {
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
		report.Stored, s.recognised+s.readTwice+report.Tombstones, report.DeadLetterCount(), report.Missing, report.Doubled)
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
	row("letters", r.DeadLetterCount(), "bad records, by reason:")
	for line := range slices.Chunk(reasonCounts(r.DeadLetters), 3) {
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

// showProcessors draws the load of this machine's processors, as package reader finds it.
func (s *stage) showProcessors(ctx context.Context, series *reader.Series) error {
	load := plot.Plot{Title: "used"}
	for m, err := range series.Find(ctx, reader.Query{Meta: bson.D{{Key: "meta.kind", Value: "cpu"}}}) {
		if err != nil {
			return err
		}
		if used, ok := m.Fields.Lookup("used").AsFloat64OK(); ok {
			load.Add("percent", m.Time.UnixMilli(), used)
		}
	}
	s.draw("This machine's processors, in percent, as they are stored", &load)
	s.out.line("  %s", s.out.paint(red, "SIGKILL at "+s.killed.UTC().Format(time.TimeOnly)))
	return nil
}

// showMinutes draws the mean level of each minute from the rollups, and compares all rollups with the produced records.
func (s *stage) showMinutes(ctx context.Context, series *reader.Series, source check.Source) error {
	rows, difference, err := check.Rollups(ctx, source)
	if err != nil {
		return err
	}
	if difference != "" {
		return fmt.Errorf("the rollups are not the totals of the measurements: %s", difference)
	}
	level := plot.Plot{Title: "level, mean"}
	query := reader.TotalsQuery{Query: reader.Query{Meta: bson.D{{Key: "meta.sensor", Value: tankName}}}, Every: reader.Step{Duration: time.Minute}}
	for w, err := range series.Totals(ctx, query) {
		if err != nil {
			return err
		}
		mean, _ := w.Fields.Lookup("level", "mean").AsFloat64OK()
		level.Add("percent", w.Time.UnixMilli(), mean)
	}
	s.draw("A tank's level in percent, by minute, from rollups", &level)
	s.out.line("  %s each of %s rows is the total of its measurements", s.out.paint(green, "✓"), grouped(rows))
	return nil
}

// draw draws a plot below a title.
func (s *stage) draw(title string, p *plot.Plot) {
	s.out.title(title)
	var text strings.Builder
	p.Draw(&text, plot.Options{Width: width - 2, Height: 9, Color: s.out.terminal})
	for line := range strings.Lines(text.String()) {
		s.out.line("  %s", strings.TrimRight(line, "\n"))
	}
}

// shownCells is the number of measurements of a column that are printed.
const shownCells = 2

// showBucket prints one bucket as it is stored, with shortened columns.
func (s *stage) showBucket(ctx context.Context, buckets *mongo.Collection) error {
	latest := options.FindOne().SetSort(bson.D{{Key: "control.count", Value: -1}})
	var bucket bson.D
	if err := buckets.FindOne(ctx, bson.D{{Key: "meta.sensor", Value: "s-01"}}, latest).Decode(&bucket); err != nil {
		return fmt.Errorf("reading a bucket: %w", err)
	}
	s.out.title("One bucket of a sensor, as it is stored")
	for line := range strings.Lines(document(bucket, "  ", "")) {
		s.out.line("  %s", strings.TrimRight(line, "\n"))
	}
	return nil
}

// document formats a document, over several lines if one line is too short for it. path is the path of the document in the
// bucket.
func document(d bson.D, indent, path string) string {
	if flat := inline(d); len([]rune(flat))+len(indent)+len(path) < width-8 && path != "" {
		return flat
	}
	var b strings.Builder
	b.WriteString("{\n")
	column := strings.HasPrefix(path, "data.")
	for i, e := range d {
		if column && i == shownCells && len(d) > shownCells+1 {
			fmt.Fprintf(&b, "%s… %d more\n", indent, len(d)-shownCells)
			break
		}
		value := text(e.Value)
		if sub, ok := e.Value.(bson.D); ok {
			value = document(sub, indent+"  ", strings.TrimPrefix(path+"."+e.Key, "."))
		}
		fmt.Fprintf(&b, "%s%s: %s,\n", indent, e.Key, value)
	}
	b.WriteString(indent[2:] + "}")
	return b.String()
}

// inline formats a document on one line.
func inline(d bson.D) string {
	fields := make([]string, len(d))
	for i, e := range d {
		fields[i] = e.Key + ": " + text(e.Value)
	}
	return "{" + strings.Join(fields, ", ") + "}"
}

// text formats a value roughly as MongoDB's shell does.
func text(v any) string {
	switch v := v.(type) {
	case bson.D:
		return inline(v)
	case bson.A:
		return elements(v)
	case string:
		return fmt.Sprintf("%q", v)
	case bson.ObjectID:
		return fmt.Sprintf("ObjectId(%q)", v.Hex())
	case bson.DateTime:
		return fmt.Sprintf("ISODate(%q)", v.Time().UTC().Format("2006-01-02T15:04:05.000Z"))
	case bson.Binary:
		return binaryText(v)
	default:
		return fmt.Sprint(v)
	}
}

// elements formats an array, or only its beginning if it is long.
func elements(a bson.A) string {
	const shown = 3
	var parts []string
	for i, v := range a {
		if i == shown {
			parts = append(parts, fmt.Sprintf("… %d more", len(a)-shown))
			break
		}
		parts = append(parts, text(v))
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

// binaryText formats a UUID as a UUID, and other bytes in hexadecimal.
func binaryText(b bson.Binary) string {
	if d := b.Data; b.Subtype == bson.TypeBinaryUUID && len(d) == 16 {
		return fmt.Sprintf("UUID(\"%x-%x-%x-%x-%x\")", d[:4], d[4:6], d[6:8], d[8:10], d[10:])
	}
	const shown = 8
	if len(b.Data) > shown {
		return fmt.Sprintf("%d bytes %x…", len(b.Data), b.Data[:shown])
	}
	return fmt.Sprintf("%d bytes %x", len(b.Data), b.Data)
}
