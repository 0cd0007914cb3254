package cli

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"strings"
	"testing"

	"waterwheel/internal/check"
)

// recipe is a section of docs/events.md: an event, settings, and the measurement that they make of it.
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
		if len(parts) != 7 || !strings.HasPrefix(parts[1], "json\n") || !strings.HasPrefix(parts[3], "sh\n") || !strings.HasPrefix(parts[5], "json\n") {
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
	code, stdout, stderr := feed(t, maps.Clone(env), event, "check", "--sample", "-", "--output", "json")
	var view checkView
	if err := json.Unmarshal([]byte(stdout), &view); err != nil || len(view.Samples) != 1 {
		t.Fatalf("exit code %d, %v\n%s%s", code, err, stdout, stderr)
	}
	return view.Samples[0]
}

func compact(t *testing.T, text []byte) string {
	t.Helper()
	var out bytes.Buffer
	if err := json.Compact(&out, text); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return out.String()
}
