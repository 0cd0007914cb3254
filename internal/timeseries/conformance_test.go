package timeseries

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// conformanceCase is one line of the conformance cases. The kinds of this package contain samples, in one of the forms of
// questionsIn. The fields of a sample depend on the kind.
type conformanceCase struct {
	Name    string        `bson:"name"`
	Kind    string        `bson:"kind"`
	Options bson.Raw      `bson:"options"`
	Create  bson.Raw      `bson:"create"` // instead of options
	Samples bson.RawValue `bson:"samples"`
}

// sample is one question and its answer. Each runner takes out the fields that it knows. A field that is left over was not
// checked and fails the case.
type sample map[string]bson.RawValue

// runners check the samples of the kinds of this package.
var runners = map[string]func(t *testing.T, c conformanceCase, s sample){
	"options":   runOptionsSample,
	"index":     runIndexSample,
	"update":    runUpdateSample,
	"ttl":       runTTLSample,
	"oid":       runIDSample,
	"round":     runRoundSample,
	"cachesize": runCacheSample,
}

// TestConformance runs the cases that come from the tests of MongoDB, and those in the files of WATERWHEEL_CASES.
func TestConformance(t *testing.T) {
	ran := map[string]int{}
	for _, file := range caseFiles(t) {
		for number, line := range readLines(t, file) {
			kind, ok := strings.CutPrefix(runCase(t, line, fmt.Sprintf("%s:%d", filepath.Base(file), number+1)), "bucketer ")
			if ok {
				kind += " (owned by bucketer)"
			}
			ran[kind]++
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(ran)) {
		t.Logf("%s: %d cases", kind, ran[kind])
	}
}

func readLines(t *testing.T, file string) (lines []string) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	scanner := bufio.NewScanner(f)
	for scanner.Buffer(nil, 64<<20); scanner.Scan(); {
		if line := strings.TrimSpace(scanner.Text()); line != "" {
			lines = append(lines, line)
		}
	}
	if err := scanner.Err(); err != nil {
		t.Fatal(err)
	}
	return lines
}

// runCase runs the case in a line, and returns its kind. The kind starts with "bucketer " if that package runs it.
func runCase(t *testing.T, line, where string) string {
	var head struct{ Name, Kind string }
	if err := json.Unmarshal([]byte(line), &head); err != nil {
		t.Fatalf("%s: %v", where, err)
	}
	switch head.Kind {
	case "insert", "minmax", "schema":
		return "bucketer " + head.Kind
	}
	t.Run(head.Name, func(t *testing.T) {
		run, ok := runners[head.Kind]
		if !ok {
			t.Fatalf("%s: kind %q is unknown", where, head.Kind)
		}
		var c conformanceCase
		if err := bson.UnmarshalExtJSON([]byte(line), false, &c); err != nil {
			t.Fatalf("%s: %v", where, err)
		}
		if c.Options == nil {
			c.Options = c.Create
		}
		for _, q := range questions(t, c, line, where) {
			t.Run(q.name, func(t *testing.T) {
				run(t, c, q.sample)
				if left := q.leftOver(); len(left) > 0 && !t.Failed() {
					t.Errorf("%s: case %s, sample %s: nothing is known of its keys %v", where, c.Name, q.name, left)
				}
			})
		}
	})
	return head.Kind
}

// questions returns the samples of a case. The other fields of the case apply to each sample. A case without samples is its own
// only sample.
func questions(t *testing.T, c conformanceCase, line, where string) []question {
	t.Helper()
	var common sample
	if err := bson.UnmarshalExtJSON([]byte(line), false, &common); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"name", "kind", "source_test", "notes", "note", "options", "create", "samples"} {
		common.take(name)
	}
	if err := common.takeNamespace(); err != nil {
		t.Fatalf("%s: case %s: %v", where, c.Name, err)
	}
	if c.Samples.Type == 0 {
		return []question{{c.Name, common}}
	}
	all, err := questionsIn(c.Kind, c.Samples)
	if err != nil {
		t.Fatalf("%s: case %s: %v", where, c.Name, err)
	}
	if len(all) == 0 {
		t.Fatalf("%s: case %s has no samples", where, c.Name)
	}
	for _, q := range all {
		for name, v := range common {
			if _, own := q.sample[name]; !own {
				q.sample[name] = v
			}
		}
	}
	return all
}

// take removes the first of several fields from the sample and returns it. The Type is 0 if there is none.
func (s sample) take(names ...string) bson.RawValue {
	for _, name := range names {
		if v, ok := s[name]; ok {
			delete(s, name)
			return v
		}
	}
	return bson.RawValue{}
}

// need is take for a field that must be present.
func (s sample) need(t *testing.T, names ...string) bson.RawValue {
	t.Helper()
	v := s.take(names...)
	if v.Type == 0 {
		t.Fatalf("the sample %v has none of the fields %v", s, names)
	}
	return v
}

// number is need for a number, or a date in milliseconds.
func (s sample) number(t *testing.T, names ...string) int64 {
	t.Helper()
	v := s.need(t, names...)
	if ms, ok := v.DateTimeOK(); ok {
		return ms
	}
	n, ok := v.AsInt64OK()
	if !ok {
		t.Fatalf("%v of %v is no number", v, names)
	}
	return n
}

// flag is take for a boolean.
func (s sample) flag(standard bool, names ...string) bool {
	if v := s.take(names...); v.Type != 0 {
		return isTrue(v)
	}
	return standard
}

// wantError returns the code name that the sample expects, "" for success. A sample gives it by name, by number, as the answer of
// a command, or as a flag for success.
func (s sample) wantError() string {
	ok, given := s["ok"]
	delete(s, "ok")
	failed := given && !isTrue(ok)
	want := ""
	for _, name := range []string{"error", "codeName", "code", "errorCode"} {
		v := s.take(name)
		switch text, isString := v.StringValueOK(); {
		case v.Type == 0 || v.Type == bson.TypeNull:
		case isString:
			want = text
		case v.Type == bson.TypeBoolean:
			failed = failed || v.Boolean()
		case v.IsNumber() && want == "":
			want = (&Error{Code: int32(v.AsInt64())}).CodeName()
		case !v.IsNumber():
			s[name] = v // so it is left over
		}
	}
	if want == "" && failed {
		return "any"
	}
	return want
}

// checkError compares an error with the expected code. It returns false if there is no result to check.
func checkError(t *testing.T, err error, want string) bool {
	t.Helper()
	got := codeOf(t, err)
	if got == "Location51024" && want == "BadValue" {
		got = want // MongoDB returns one or the other, depending on the version
	}
	if got != want && (want != "any" || got == "") {
		t.Errorf("got %q (%v), want %q", got, err, want)
	}
	return err == nil && want == ""
}

// readOptions reads the options of a collection, with the names of the MongoDB commands.
func readOptions(t *testing.T, raw bson.Raw) Options {
	t.Helper()
	var o struct {
		TimeField   string      `bson:"timeField"`
		MetaField   string      `bson:"metaField"`
		Granularity Granularity `bson:"granularity"`
		Span        int32       `bson:"bucketMaxSpanSeconds"`
		Rounding    int32       `bson:"bucketRoundingSeconds"`
		Expire      int64       `bson:"expireAfterSeconds"`
	}
	if raw != nil {
		raw, err := flatten(raw)
		if err != nil {
			t.Fatalf("the options %v: %v", raw, err)
		}
		if err := bson.Unmarshal(raw, &o); err != nil {
			t.Fatal(err)
		}
		refuseUnset(t, raw)
	}
	return Options{
		TimeField: o.TimeField, MetaField: o.MetaField, Granularity: o.Granularity, MaxSpanSeconds: o.Span,
		RoundingSeconds: o.Rounding, ExpireAfterSeconds: o.Expire,
	}
}

// refuseUnset fails the test for names that readOptions does not know.
func refuseUnset(t *testing.T, raw bson.Raw) {
	t.Helper()
	known := []string{
		"timeField", "metaField", "granularity", "bucketMaxSpanSeconds", "bucketRoundingSeconds", "expireAfterSeconds",
	}
	elements, err := raw.Elements()
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range elements {
		if !slices.Contains(known, e.Key()) {
			t.Fatalf("the option %q is unknown", e.Key())
		}
	}
}
