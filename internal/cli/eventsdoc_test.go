package cli

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"regexp"
	"strings"
	"testing"

	"waterwheel/internal/check"
)

// recipe is a section of docs/events.md, with an event, settings, and the measurement they make.
type recipe struct{ name, event, settings, measurement string }

// readRecipes reads the recipes of a chapter of the page.
func readRecipes(t *testing.T, chapter string) (list []recipe) {
	t.Helper()
	page, err := os.ReadFile("../../docs/events.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(page), "\n## "+chapter+"\n")
	text, _, _ = strings.Cut(text, "\n## ")
	for section := range strings.SplitSeq(text, "\n### ") {
		name, body, _ := strings.Cut(section, "\n")
		parts := strings.Split(body, "```")
		if len(parts) == 1 && list == nil {
			continue // what stands before the first
		}
		if len(parts) != 7 || !strings.HasPrefix(parts[1], "json\n") && !strings.HasPrefix(parts[1], "text\n") || !strings.HasPrefix(parts[3], "sh\n") || !strings.HasPrefix(parts[5], "json\n") {
			t.Fatalf("%s: not an event, settings and a measurement, but %d parts", name, len(parts))
		}
		block := func(i int) string {
			_, text, _ := strings.Cut(parts[i], "\n")
			return strings.TrimSpace(text)
		}
		list = append(list, recipe{name, block(1), block(3), block(5)})
	}
	return list
}

// TestRecipesAreTrue: what the page says of its events is what becomes of them, and check proposes those settings.
func TestRecipesAreTrue(t *testing.T) {
	recipes := readRecipes(t, "Recipes")
	if len(recipes) < 7 {
		t.Errorf("%d recipes", len(recipes))
	}
	for _, r := range recipes {
		t.Run(r.name, func(t *testing.T) {
			r.check(t)
			without := r.sample(t, nil)
			if without.Proposal == nil || without.Proposal.Line() != r.settings {
				t.Errorf("proposed is %+v, the page says %s", without.Advice, r.settings)
			}
		})
	}
}

// TestShapesAreTrue: what the page says of each setting for the shape of events is what becomes of its event.
func TestShapesAreTrue(t *testing.T) {
	shapes, said := readRecipes(t, "Shapes"), ""
	for _, r := range shapes {
		t.Run(r.name, r.check)
		said += r.settings + " "
	}
	for _, setting := range []string{"LIST", "PARSE", "SKIP", "FIELD_NAME", "FIELD_VALUE", "RENAME", "TIME_ZONE", "TIME_EXACT", "NUMBERS"} {
		if !strings.Contains(said, "EVENT_"+setting+"=") {
			t.Errorf("EVENT_%s has no shape", setting)
		}
	}
}

// check compares the measurements that the settings make of the event with those of the page.
func (r recipe) check(t *testing.T) {
	env := map[string]string{}
	for setting := range strings.FieldsSeq(r.settings) {
		name, value, _ := strings.Cut(setting, "=")
		env[name] = strings.Trim(value, "'")
	}
	with, want := r.sample(t, env), strings.Split(r.measurement, "\n")
	if with.Measurements != len(want) || len(with.Bad) > 0 {
		t.Fatalf("with the settings: %d measurements, %+v", with.Measurements, with.Bad)
	}
	for i := range want {
		if got, want := compact(t, with.Examples[i]), compact(t, []byte(want[i])); got != want {
			t.Errorf("the measurement is\n%s, the page says\n%s", got, want)
		}
	}
}

// sample is what check makes of the event with some settings.
func (r recipe) sample(t *testing.T, env map[string]string) check.Sample {
	t.Helper()
	event := r.event
	if strings.Contains(r.settings, "EVENT_FRAMING=confluent") {
		event = "\x00\x00\x00\x00\x07" + event
	}
	if strings.Contains(r.settings, "EVENT_COMPRESSION=gzip") {
		event = gzipLine(t, event)
	}
	code, stdout, stderr := feed(t, maps.Clone(env), event, "check", "--sample", "-", "--output", "json")
	var view checkView
	if err := json.Unmarshal([]byte(stdout), &view); err != nil || len(view.Samples) != 1 {
		t.Fatalf("exit code %d, %v\n%s%s", code, err, stdout, stderr)
	}
	return view.Samples[0]
}

// gzipLine is a text of JSON compressed by gzip, with so much white space that no line end is in it: standard input is read line
// by line.
func gzipLine(t *testing.T, text string) string {
	t.Helper()
	for range 100 {
		var out bytes.Buffer
		w := gzip.NewWriter(&out)
		_, err := w.Write([]byte(text))
		if err = errors.Join(err, w.Close()); err != nil {
			t.Fatal(err)
		}
		text += " "
		if line := out.String(); strings.TrimSpace(line) == line && !strings.Contains(line, "\n") {
			return line
		}
	}
	t.Fatal("with any white space there is a line end in the compressed text")
	return ""
}

func compact(t *testing.T, text []byte) string {
	t.Helper()
	var out bytes.Buffer
	if err := json.Compact(&out, text); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return out.String()
}

// TestTimesOfTheDocumentsAreRead: docs/events.md says which forms of times are read, and by which formats; all its examples are of
// one noon in UTC, or of that day's midnight.
func TestTimesOfTheDocumentsAreRead(t *testing.T) {
	page, err := os.ReadFile("../../docs/events.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## Times\n")
	section, _, _ = strings.Cut(section, "\n## ")
	quoted := regexp.MustCompile("`([^`]+)`")
	read := 0
	for line := range strings.Lines(section) {
		cells := strings.Split(line, "|")
		if len(cells) < 4 {
			continue
		}
		formats := []string{"auto"}
		examples := quoted.FindAllStringSubmatch(cells[2], -1)
		if strings.Contains(cells[2], "EVENT_TIME_FORMAT=") {
			formats, examples = nil, quoted.FindAllStringSubmatch(cells[1], -1)
			for _, setting := range quoted.FindAllStringSubmatch(cells[2], -1) {
				formats = append(formats, strings.Trim(strings.TrimPrefix(setting[1], "EVENT_TIME_FORMAT="), "'"))
			}
		}
		for _, example := range examples {
			for _, format := range formats {
				read++
				readsTime(t, format, example[1])
			}
		}
	}
	if read < 20 {
		t.Errorf("only %d times were found", read)
	}
}

// readsTime makes check read an event with a time of the documents, as a string, and as a number or Extended JSON if it is one.
func readsTime(t *testing.T, format, example string) {
	t.Helper()
	values := []string{example}
	if !json.Valid([]byte(example)) {
		values = []string{`"` + example + `"`}
	} else if !strings.ContainsAny(example, `{"`) && format != "auto" {
		values = append(values, `"`+example+`"`)
	}
	for _, value := range values {
		env := map[string]string{"EVENT_TIME_FORMAT": format, "EVENT_META_FROM": "none"}
		_, stdout, stderr := feed(t, env, `{"time": `+value+`}`, "check", "--sample", "-", "--output", "json")
		var view checkView
		if err := json.Unmarshal([]byte(stdout), &view); err != nil || len(view.Samples) != 1 || view.Samples[0].Measurements != 1 {
			t.Errorf("%s as %s is not read: %v\n%s%s", value, format, err, stdout, stderr)
			continue
		}
		got := string(view.Samples[0].Examples[0])
		if !strings.Contains(got, `"2026-03-01T12:00:00`) && !strings.Contains(got, `"2026-03-01T00:00:00Z"`) {
			t.Errorf("%s as %s is %s", value, format, got)
		}
	}
}
