package bucketer

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// casesFile holds the project's conformance cases. Files named by casesEnv, and files in folders named by it, are run too.
const (
	casesFile = "../internal/timeseries/testdata/bucket_catalog.jsonl"
	casesEnv  = "WATERWHEEL_CASES"
)

// conformanceCase is one line of a file of cases. It states MongoDB's behaviour, taken from its tests or derived from its rules.
type conformanceCase struct {
	name, kind string
	fields     bson.D
}

// TestConformance runs the cases of the kinds that concern the catalog. The others belong to package timeseries.
func TestConformance(t *testing.T) {
	runners := map[string]func(*testing.T, conformanceCase){
		"insert": runInsertCase, "minmax": runMinMaxCase, "schema": runSchemaCase,
	}
	elsewhere := map[string]bool{
		"round": true, "cachesize": true, "oid": true, "options": true, "index": true, "update": true, "ttl": true,
	}
	ran := map[string]int{}
	for _, file := range caseFiles(t) {
		for _, one := range readCases(t, file) {
			ran[one.kind]++
			if run, ok := runners[one.kind]; ok {
				t.Run(one.kind+"/"+one.name, func(t *testing.T) { run(t, one) })
			} else if !elsewhere[one.kind] {
				t.Errorf("%s: case %s is of the unknown kind %q", file, one.name, one.kind)
			}
		}
	}
	for kind, n := range ran {
		if runners[kind] != nil {
			t.Logf("%s: %d cases run", kind, n)
		} else {
			t.Logf("%s: %d cases, which package timeseries runs", kind, n)
		}
	}
}

func caseFiles(t *testing.T) []string {
	t.Helper()
	files := []string{casesFile}
	for _, path := range filepath.SplitList(os.Getenv(casesEnv)) {
		inside, err := filepath.Glob(filepath.Join(path, "*.jsonl"))
		if err != nil || len(inside) == 0 {
			inside = []string{path} // a file. Anything else cannot be read.
		}
		files = append(files, inside...)
	}
	return files
}

func readCases(t *testing.T, file string) []conformanceCase {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("reading conformance cases: %v", err)
	}
	var cases []conformanceCase
	lines := bufio.NewScanner(bytes.NewReader(content))
	lines.Buffer(nil, 64<<20)
	for number := 1; lines.Scan(); number++ {
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		var fields bson.D
		if err := bson.UnmarshalExtJSON(lines.Bytes(), false, &fields); err != nil {
			t.Fatalf("%s:%d: %v", file, number, err)
		}
		fields = generate(t, fields, nil).(bson.D)
		cases = append(cases, conformanceCase{
			name: at(fields, "name").(string), kind: at(fields, "kind").(string), fields: fields,
		})
	}
	return cases
}

// generate expands {"$repeat": {s, n}} and, within arrays, {"$generate": {n, template}}. i replaces "$i".
func generate(t *testing.T, v any, i any) any {
	switch v := v.(type) {
	case string:
		if v == "$i" && i != nil {
			return i
		}
	case bson.D:
		if len(v) == 1 && v[0].Key == "$repeat" {
			return strings.Repeat(at(v, "$repeat.s").(string), toInt(t, at(v, "$repeat.n")))
		}
		out := make(bson.D, 0, len(v))
		for _, e := range v {
			out = append(out, bson.E{Key: e.Key, Value: generate(t, e.Value, i)})
		}
		return out
	case bson.A:
		out := bson.A{}
		for _, e := range v {
			if d, ok := e.(bson.D); ok && len(d) == 1 && d[0].Key == "$generate" {
				for k := range toInt(t, at(d, "$generate.n")) {
					out = append(out, generate(t, at(d, "$generate.template"), int32(k)))
				}
				continue
			}
			out = append(out, generate(t, e, i))
		}
		return out
	}
	return v
}

func toInt(t *testing.T, v any) int {
	t.Helper()
	switch v := v.(type) {
	case int32:
		return int(v)
	case int64:
		return int(v)
	case float64:
		return int(v)
	}
	t.Fatalf("%v (%T) is no number", v, v)
	return 0
}

// text renders a value for messages.
func text(v any) string {
	raw, err := bson.MarshalExtJSON(bson.D{{Key: "v", Value: v}}, false, false)
	if err != nil {
		return fmt.Sprint(v)
	}
	if len(raw) > 400 {
		return string(raw[:400]) + "…"
	}
	return string(raw)
}
