package timeseries

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// caseFiles returns the files of the repository, and the files or folders of .jsonl files in WATERWHEEL_CASES.
func caseFiles(t *testing.T) []string {
	t.Helper()
	files := []string{filepath.Join("testdata", "bucket_catalog.jsonl")}
	for _, path := range filepath.SplitList(os.Getenv("WATERWHEEL_CASES")) {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatalf("WATERWHEEL_CASES: %v", err)
		}
		if !info.IsDir() {
			files = append(files, path)
			continue
		}
		inside, err := filepath.Glob(filepath.Join(path, "*.jsonl"))
		if err != nil || len(inside) == 0 {
			t.Fatalf("WATERWHEEL_CASES: %s holds no .jsonl file (%v)", path, err)
		}
		files = append(files, inside...)
	}
	return files
}

// positional contains the field names of samples that are written as arrays, for each kind of case.
var positional = map[string][]string{
	"options":   {"from", "to", "ok"},
	"index":     {"spec", "buckets"},
	"update":    {"q", "u", "bucketQ", "bucketU"},
	"ttl":       {"now", "expireAfterSeconds", "bucketMaxSpanSeconds", "minTime", "deleted"},
	"oid":       {"seconds", "extended"},
	"round":     {"time", "rounded"},
	"cachesize": {"cacheBytes", "activeBuckets", "derived"},
}

// question is one sample and its name.
type question struct {
	name string
	sample
}

// questionsIn reads the samples of a case. They are an array or an object. Each sample is an object, or an array of the values of
// its fields.
func questionsIn(kind string, samples bson.RawValue) (all []question, err error) {
	elements, err := elementsOf(samples)
	if err != nil {
		return nil, fmt.Errorf("samples: %w", err)
	}
	for _, e := range elements {
		s, err := sampleOf(kind, e.Value())
		if err != nil {
			return nil, fmt.Errorf("sample %s: %w", e.Key(), err)
		}
		all = append(all, question{e.Key(), s})
	}
	return all, nil
}

// elementsOf returns the elements of an array or an object.
func elementsOf(v bson.RawValue) ([]bson.RawElement, error) {
	if v.Type != bson.TypeArray && v.Type != bson.TypeEmbeddedDocument {
		return nil, fmt.Errorf("%v is of type %s: neither an array nor an object", v, v.Type)
	}
	return bson.Raw(v.Value).Elements()
}

func sampleOf(kind string, v bson.RawValue) (sample, error) {
	elements, err := elementsOf(v)
	if err != nil {
		return nil, err
	}
	names := positional[kind]
	if v.Type == bson.TypeArray && len(elements) != len(names) {
		return nil, fmt.Errorf("%v has %d values: an array is read as the values of %v", v, len(elements), names)
	}
	s := sample{}
	for i, e := range elements {
		name := e.Key()
		if v.Type == bson.TypeArray {
			name = names[i]
		}
		s[name] = e.Value()
	}
	s.take("notes", "note", "name")
	return s, s.takeNamespace()
}

// takeNamespace removes the namespace of a sample. Nothing depends on it, so it only has to be a valid one.
func (s sample) takeNamespace() error {
	for _, name := range []string{"ns", "namespace"} {
		v := s.take(name)
		if v.Type == 0 {
			continue
		}
		text, _ := v.StringValueOK()
		database, collection, found := strings.Cut(text, ".")
		if !found || CheckDatabaseName(database) != nil || collection == "" {
			return fmt.Errorf("%s is %v: it must be database.collection", name, v)
		}
	}
	return nil
}

// flatten changes the options of a collection from the form of create and collMod: it moves the fields in "timeseries" to the
// other fields.
func flatten(raw bson.Raw) (bson.Raw, error) {
	b := newBuilder()
	elements, err := raw.Elements()
	if err != nil {
		return nil, err
	}
	for _, e := range elements {
		switch e.Key() {
		case "create", "collMod": // the name of the collection
			if e.Value().Type != bson.TypeString {
				return nil, fmt.Errorf("%s is %v: it must be the name of a collection", e.Key(), e.Value())
			}
		case "timeseries":
			inside, err := elementsOf(e.Value())
			if err != nil {
				return nil, fmt.Errorf("timeseries: %w", err)
			}
			for _, i := range inside {
				b.add(i.Key(), i.Value())
			}
		default:
			b.add(e.Key(), e.Value())
		}
	}
	return b.document(), nil
}

func TestSampleFormsAreRead(t *testing.T) {
	const spec = `{"spec": {"tm": 1}, "buckets": {"a": 1}}`
	for _, form := range []string{
		`[` + spec + `]`, `{"one": ` + spec + `}`, `[[{"tm": 1}, {"a": 1}]]`, `{"one": [{"tm": 1}, {"a": 1}]}`,
		`[{"ns": "test.ts", "notes": "kept apart", "spec": {"tm": 1}, "buckets": {"a": 1}}]`,
	} {
		all, err := questionsIn("index", ext(t, `{"samples": `+form+`}`).Lookup("samples"))
		if err != nil || len(all) != 1 || len(all[0].sample) != 2 {
			t.Errorf("%s: %v, %v", form, all, err)
			continue
		}
		sameDocument(t, form, document(t, all[0].sample["spec"]), objectValue(ext(t, `{"tm": 1}`)))
		sameDocument(t, form, document(t, all[0].sample["buckets"]), objectValue(ext(t, `{"a": 1}`)))
	}
	for form, want := range map[string]string{
		`7`:                      "samples: 7",
		`[7]`:                    "sample 0: 7",
		`{"a": "b"}`:             `sample a: "b"`,
		`[[1, 2, 3]]`:            "has 3 values",
		`[{"ns": "test"}]`:       "database.collection",
		`[{}, {"ns": 5}]`:        "sample 1: ns is 5",
		`{"x": {"ns": ".coll"}}`: "sample x: ns",
	} {
		// Extended JSON has 7 as an int32.
		_, err := questionsIn("index", ext(t, `{"samples": `+form+`}`).Lookup("samples"))
		if err == nil || !strings.Contains(strings.NewReplacer(`{"$numberInt":"`, "", `"}`, "").Replace(err.Error()), want) {
			t.Errorf("%s: %v, want …%s…", form, err, want)
		}
	}
	flat, err := flatten(ext(t, `{"create": "ts", "timeseries": {"timeField": "t", "granularity": "hours"}, "expireAfterSeconds": 5}`))
	if err != nil {
		t.Fatal(err)
	}
	sameDocument(t, "the options", flat, objectValue(ext(t, `{"timeField": "t", "granularity": "hours", "expireAfterSeconds": 5}`)))
}

// leftOver returns the names of the fields of a sample that no runner took.
func (s sample) leftOver() []string {
	names := make([]string, 0, len(s))
	for name := range s {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
