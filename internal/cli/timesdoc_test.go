package cli

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"
)

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

// readsTime has check read an event with a time of the documents, as a number or Extended JSON if it is such, and as a text.
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
