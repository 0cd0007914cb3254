package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/avro"
)

// TestAvroOfTheDocumentsIsTrue: the schema of docs/events.md, its event and its settings make the measurement that is there, and
// check proposes the settings once format and schema are set.
func TestAvroOfTheDocumentsIsTrue(t *testing.T) {
	page, err := os.ReadFile("../../docs/events.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(page), "\n## Avro\n")
	text, _, _ = strings.Cut(text, "\n## ")
	parts := strings.Split(text, "```")
	if len(parts) != 9 {
		t.Fatalf("not a schema, an event, settings and a measurement, but %d parts", len(parts))
	}
	block := func(i int) string {
		_, text, _ := strings.Cut(parts[i], "\n")
		return strings.TrimSpace(text)
	}
	schema := avro.MustParse(block(1))
	var event any
	if err := schema.DecodeJSON([]byte(strings.Replace(block(3), `"west"`, `{"string":"west"}`, 1)), &event); err != nil {
		t.Fatal(err)
	}
	value, err := schema.Encode(event)
	if err != nil || strings.ContainsAny(string(value), "\n") {
		t.Fatalf("%q %v: an event of a line has no line end", value, err)
	}
	file := filepath.Join(t.TempDir(), "reading.avsc")
	if err := os.WriteFile(file, []byte(block(1)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{}
	for setting := range strings.FieldsSeq(block(5)) {
		name, value, _ := strings.Cut(setting, "=")
		env[name] = value
	}
	env["EVENT_SCHEMA_FILE"] = file
	sample := func(env map[string]string) checkView {
		code, stdout, stderr := feed(t, env, string(value), "check", "--sample", "-", "--output", "json")
		var view checkView
		if err := json.Unmarshal([]byte(stdout), &view); err != nil || len(view.Samples) != 1 {
			t.Fatalf("exit code %d, %v\n%s%s", code, err, stdout, stderr)
		}
		return view
	}
	s := sample(env).Samples[0]
	if s.Measurements != 1 || compact(t, s.Examples[0]) != compact(t, []byte(block(7))) {
		t.Errorf("%d measurements, %s, want %s", s.Measurements, s.Examples, block(7))
	}
	without := sample(map[string]string{"EVENT_FORMAT": "avro", "EVENT_SCHEMA_FILE": file}).Samples[0]
	_, wanted, _ := strings.Cut(block(5), ".avsc ")
	if without.Proposal == nil || !strings.HasSuffix(without.Proposal.Line(), wanted) {
		t.Errorf("proposed is %+v, want %s", without.Advice, wanted)
	}
}
