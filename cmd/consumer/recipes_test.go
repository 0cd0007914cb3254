package main

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"strings"
	"testing"
)

// recipe is a section of docs/events.md: an event, settings, and the measurement that they make of it.
type recipe struct{ name, event, settings, measurement string }

// readRecipes reads the recipes of the page.
func readRecipes(t *testing.T) (list []recipe) {
	t.Helper()
	page, err := os.ReadFile("../../docs/events.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(page), "\n## Recipes\n")
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
	recipes := readRecipes(t)
	if len(recipes) < 7 {
		t.Errorf("%d recipes", len(recipes))
	}
	for _, r := range recipes {
		t.Run(r.name, func(t *testing.T) {
			env := map[string]string{}
			for setting := range strings.FieldsSeq(r.settings) {
				name, value, _ := strings.Cut(setting, "=")
				env[name] = value
			}
			event := r.event
			if env["EVENT_FRAMING"] == "confluent" {
				event = "\x00\x00\x00\x00\x07" + event
			}
			sample := func(env map[string]string) checkView {
				code, stdout, stderr := feed(t, maps.Clone(env), event, "check", "--sample", "-", "--output", "json")
				var view checkView
				if err := json.Unmarshal([]byte(stdout), &view); err != nil || len(view.Samples) != 1 {
					t.Fatalf("exit code %d, %v\n%s%s", code, err, stdout, stderr)
				}
				return view
			}
			with := sample(env).Samples[0]
			if with.Measurements != 1 || len(with.Bad) > 0 {
				t.Fatalf("with the settings: %+v", with.Bad)
			}
			if got, want := compact(t, with.Examples[0]), compact(t, []byte(r.measurement)); got != want {
				t.Errorf("the measurement is\n%s, the page says\n%s", got, want)
			}
			without := sample(nil).Samples[0]
			if without.Proposal == nil || without.Proposal.Line() != r.settings {
				t.Errorf("proposed is %+v, the page says %s", without.Advice, r.settings)
			}
		})
	}
}

func compact(t *testing.T, text []byte) string {
	t.Helper()
	var out bytes.Buffer
	if err := json.Compact(&out, text); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return out.String()
}
