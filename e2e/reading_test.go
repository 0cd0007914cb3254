package e2e_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// These tests run the examples of README.md and docs/reading.md literally, on data that a consumer has stored. The beginning of
// an example tells its kind.

// example is a block of code in a document. For mongosh it is one statement, for a shell one line.
type example struct{ document, text string }

// name returns the example's name for a test.
func (e example) name() string {
	first, _, _ := strings.Cut(e.text, "\n")
	return filepath.Base(e.document) + " " + first[:min(len(first), 60)]
}

// codeBlocks returns the blocks of code in a document, without their indent. With a heading it returns only those of this
// section.
func codeBlocks(t *testing.T, document, heading string) (blocks []string) {
	t.Helper()
	content, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	text := string(content)
	if heading != "" {
		_, after, ok := strings.Cut(text, "\n"+heading+"\n")
		if !ok {
			t.Fatalf("%s has no %q", document, heading)
		}
		text, _, _ = strings.Cut(after, "\n## ")
	}
	block := ""
	for line := range strings.Lines(text + "\nend\n") {
		code, isCode := strings.CutPrefix(line, "    ")
		switch {
		case isCode:
			block += code
		case strings.TrimSpace(line) == "" && block != "":
			block += "\n"
		case block != "":
			blocks, block = append(blocks, strings.TrimSpace(block)), ""
		}
	}
	return blocks
}

// examples returns the examples in both documents that begin with one of the words.
func examples(t *testing.T, words ...string) (found []example) {
	t.Helper()
	for document, heading := range map[string]string{"../README.md": "## Read it", "../docs/reading.md": ""} {
		for _, block := range codeBlocks(t, document, heading) {
			for _, word := range words {
				if strings.HasPrefix(block, word) {
					found = append(found, example{document, block})
				}
			}
		}
	}
	return found
}

// TestReadingOnTheCommandLine runs every command of the documents in a shell.
func TestReadingOnTheCommandLine(t *testing.T) {
	t.Parallel()
	s := newReadings(t)
	commands := 0
	for _, e := range examples(t, "waterwheel query", "bin/waterwheel query") {
		for command := range strings.Lines(e.text) {
			commands++
			command = strings.TrimPrefix(strings.TrimSpace(command), "bin/")
			code, out := s.shell("cd '"+t.TempDir()+"' && "+command+" && cat *.csv 2>/dev/null; true", map[string][]string{"waterwheel": {world.binary}})
			if code != 0 || !strings.Contains(out, "s-1") || strings.Contains(out, "waterwheel: ") || strings.Contains(out, "No ") || strings.Contains(out, "None ") {
				t.Errorf("%s ended with code %d:\n%s", command, code, out)
			}
		}
	}
	if commands < 9 {
		t.Errorf("only %d commands were found", commands)
	}
}

// programAround completes an example in Go to a program.
const programAround = `package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"waterwheel/reader"
)

var _ = fmt.Sprint(time.Now(), bson.M{})

func main() {
	client, err := mongo.Connect(options.Client().ApplyURI(os.Getenv("MONGODB_URI")))
	if err == nil {
		err = read(context.Background(), client)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func read(ctx context.Context, client *mongo.Client) error {
	%s
	return err
}
`

// TestReadingInGo compiles and runs the examples in Go.
func TestReadingInGo(t *testing.T) {
	t.Parallel()
	s := newReadings(t)
	found := examples(t, "series, err := reader.Open")
	if len(found) != 3 {
		t.Fatalf("%d examples were found", len(found))
	}
	for _, e := range found {
		file := filepath.Join(t.TempDir(), "main.go")
		program := fmt.Sprintf(programAround, strings.ReplaceAll(e.text, `Database("telemetry")`, fmt.Sprintf("Database(%q)", s.database)))
		if err := os.WriteFile(file, []byte(program), 0o600); err != nil {
			t.Fatal(err)
		}
		run := exec.CommandContext(within(t, 2*time.Minute), "go", "run", file)
		run.Dir = ".." // the module that contains the reader
		run.Env = append(os.Environ(), "GOWORK=off", "MONGODB_URI="+s.settings["MONGODB_URI"])
		out, err := run.CombinedOutput()
		want := readingsEach
		if strings.Contains(e.text, "Totals") {
			want = 4 // windows of an hour
		}
		if lines := strings.Count(string(out), "\n"); err != nil || lines != want || strings.Contains(string(out), "s-18") {
			t.Errorf("%s: %v, %d lines, want %d:\n%s", e.name(), err, lines, want, out)
		}
	}
}

// readable returns the stream's database.
func (s *stream) readable() *mongo.Database {
	s.t.Helper()
	client, err := mongo.Connect(options.Client().ApplyURI(s.settings["MONGODB_URI"]))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		if err := client.Disconnect(context.Background()); err != nil {
			s.t.Error(err)
		}
	})
	return client.Database(s.database)
}

// wantTotals compares totals from the bounds and counts of buckets with the sent measurements.
func wantTotals(t *testing.T, found []bson.M) {
	t.Helper()
	for i, one := range found {
		measurements := 2 * readingsEach
		if i == 2 {
			measurements++ // the measurement of 1969
		}
		delete(one, "newest")
		want := fmt.Sprint(map[string]any{
			"_id": fmt.Sprintf("s-%d", 17+i), "measurements": measurements, "coldest": 20 + float64(i), "warmest": 22.25 + float64(i),
		})
		if got := fmt.Sprint(map[string]any(one)); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// pymongo replaces the driver. Its find supports the operators of the example.
const pymongo = `
import json, os
from datetime import datetime, timezone

def value(v):
    if isinstance(v, dict) and list(v) == ["$date"]:
        at = v["$date"]
        if isinstance(at, dict):
            return datetime.fromtimestamp(0) if int(at["$numberLong"]) < 0 else datetime.max
        return datetime.fromisoformat(at.replace("Z", "+00:00")).astimezone(timezone.utc).replace(tzinfo=None)
    if isinstance(v, dict):
        return {k: value(x) for k, x in v.items()}
    return v

def at(document, path):
    for name in path.split("."):
        document = document.get(name) if isinstance(document, dict) else None
    return document

compare = {
    "$gt": lambda a, b: a is not None and a > b, "$gte": lambda a, b: a is not None and a >= b,
    "$lt": lambda a, b: a is not None and a < b, "$lte": lambda a, b: a is not None and a <= b,
    "$exists": lambda a, b: (a is not None) == b, "$not": lambda a, b: not holds(a, b),
}

def holds(have, want):
    return all(compare[operator](have, operand) for operator, operand in want.items())

def matches(document, path, want):
    have = at(document, path)
    if isinstance(want, dict) and list(want)[0].startswith("$"):
        return holds(have, want)
    return have == want

class Buckets:
    def find(self, filter):
        for line in open(os.environ["BUCKETS"]):
            document = value(json.loads(line))
            if all(matches(document, path, want) for path, want in filter.items()):
                yield document

class MongoClient(dict):
    def __init__(self, uri):
        self["telemetry"] = {"measurements.buckets": Buckets()}
        self.admin = self

    def command(self, name):
        return {"localTime": datetime.fromisoformat(os.environ["NOW"])}
`

// TestReadingInPython runs the example in Python on the buckets, as Extended JSON.
func TestReadingInPython(t *testing.T) {
	t.Parallel()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("there is no python3 to run the example with")
	}
	s := newReadings(t)
	found := examples(t, "from datetime import")
	if len(found) != 1 {
		t.Fatalf("%d examples were found", len(found))
	}
	dir := t.TempDir()
	var lines strings.Builder
	ctx := within(t, 20*time.Second)
	var buckets []bson.Raw
	cursor, err := s.readable().Collection("measurements.buckets").Find(ctx, bson.D{})
	if err == nil {
		err = cursor.All(ctx, &buckets)
	}
	if err != nil || len(buckets) == 0 {
		t.Fatalf("%d buckets, %v", len(buckets), err)
	}
	for _, bucket := range append(buckets, segmentInstead(t, buckets)) {
		line, err := bson.MarshalExtJSON(bucket, false, false)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&lines, "%s\n", line)
	}
	for name, text := range map[string]string{"buckets.json": lines.String(), "pymongo.py": pymongo, "example.py": found[0].text} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run := exec.CommandContext(within(t, time.Minute), python, filepath.Join(dir, "example.py"))
	run.Env = append(os.Environ(), "BUCKETS="+filepath.Join(dir, "buckets.json"), "NOW=2026-04-01T00:00:00", "PYTHONDONTWRITEBYTECODE=1")
	out, err := run.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var want strings.Builder
	for n := range readingsEach {
		at := readingNoon.Add(time.Duration(n) * time.Minute)
		fmt.Fprintf(&want, "%s %s\n", at.Format("2006-01-02T15:04:05"), pythonFloat(20+float64(n%10)/4))
	}
	printed := strings.SplitAfter(string(out), "\n")
	slices.Sort(printed) // segments come first
	if strings.Join(printed, "") != want.String() {
		t.Errorf("it printed\n%s\nwant\n%s", out, want.String())
	}
}

// segmentInstead returns a segment with the measurements of s-17's first bucket, which is no longer shown then.
func segmentInstead(t *testing.T, buckets []bson.Raw) bson.Raw {
	t.Helper()
	for i, bucket := range buckets {
		var segment, hidden bson.M
		if sensor, _ := bucket.Lookup("meta", "sensor").StringValueOK(); sensor != "s-17" {
			continue
		}
		for _, m := range []*bson.M{&segment, &hidden} {
			decoder := bson.NewDecoder(bson.NewDocumentReader(bytes.NewReader(bucket)))
			decoder.DefaultDocumentM()
			if err := decoder.Decode(m); err != nil {
				t.Fatal(err)
			}
		}
		later := bson.NewDateTimeFromTime(readingNoon.AddDate(1, 0, 0))
		hidden["control"].(bson.M)["compaction"] = bson.M{"visibleFrom": later}
		segment["control"].(bson.M)["segment"] = bson.M{"owner": "0/0", "visibleUntil": later}
		metas, data := bson.M{}, segment["data"].(bson.M)
		for index := range data["time"].(bson.M) {
			metas[index] = segment["meta"]
		}
		data["meta"] = metas
		segment["meta"] = segmentMeta(segment["_id"].(bson.ObjectID))
		var err error
		if buckets[i], err = bson.Marshal(hidden); err != nil {
			t.Fatal(err)
		}
		made, err := bson.Marshal(segment)
		if err != nil {
			t.Fatal(err)
		}
		return made
	}
	t.Fatal("there is no bucket of s-17")
	return nil
}

// pythonFloat formats a number as Python prints it.
func pythonFloat(f float64) string {
	if s := fmt.Sprint(f); strings.Contains(s, ".") {
		return s
	}
	return fmt.Sprintf("%.1f", f)
}
