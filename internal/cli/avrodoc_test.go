package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/twmb/avro"
)

// TestAvroOfTheDocumentsIsTrue checks that the schema of docs/events.md, its event and its settings make the documented
// measurement. check must propose the settings once format and schema are set.
func TestAvroOfTheDocumentsIsTrue(t *testing.T) {
	block := avroBlocks(t, "Avro")
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
	page, err := os.ReadFile("../../docs/events.md")
	said := regexp.MustCompile("With `EVENT_DECIMALS=(.*)` the last line has `(.*)`").FindSubmatch(page)
	if err != nil || said == nil {
		t.Fatalf("no sentence on decimals, %v", err)
	}
	env["EVENT_DECIMALS"] = string(said[1])
	asDouble := regexp.MustCompile(`"price": \{[^}]*\}`).ReplaceAllLiteralString(block(7), string(said[2]))
	if s := sample(env).Samples[0]; len(s.Examples) != 1 || compact(t, s.Examples[0]) != compact(t, []byte(asDouble)) {
		t.Errorf("%s, want %s", s.Examples, asDouble)
	}
	without := sample(map[string]string{"EVENT_FORMAT": "avro", "EVENT_SCHEMA_FILE": file}).Samples[0]
	_, wanted, _ := strings.Cut(block(5), ".avsc ")
	if without.Proposal == nil || !strings.HasSuffix(without.Proposal.Line(), wanted) {
		t.Errorf("proposed is %+v, want %s", without.Advice, wanted)
	}
}

// avroBlocks returns the schema (1), the event (3), the settings (5) and the measurement (7) of a chapter of docs/events.md.
func avroBlocks(t *testing.T, chapter string) func(int) string {
	t.Helper()
	page, err := os.ReadFile("../../docs/events.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(page), "\n## "+chapter+"\n")
	text, _, _ = strings.Cut(text, "\n## ")
	parts := strings.Split(text, "```")
	if len(parts) != 9 {
		t.Fatalf("not a schema, an event, settings and a measurement, but %d parts", len(parts))
	}
	return func(i int) string {
		_, text, _ := strings.Cut(parts[i], "\n")
		return strings.TrimSpace(text)
	}
}

// TestAvroOfARegistryIsTrue: with the schema of docs/events.md in a registry, its event and its settings make the measurement that is
// there, check proposes the settings, and says when the registry does not answer.
func TestAvroOfARegistryIsTrue(t *testing.T) {
	block := avroBlocks(t, "Avro with a schema registry")
	schema := avro.MustParse(block(1))
	var event any
	text := strings.NewReplacer(`"after": {`, `"after": {"plant.public.readings.Value": {`, `21.4}`, `{"double": 21.4}}}`).Replace(block(3))
	if err := schema.DecodeJSON([]byte(text), &event); err != nil {
		t.Fatal(err)
	}
	value, err := schema.Encode(event)
	if err != nil || strings.ContainsAny(string(value), "\n") {
		t.Fatalf("%q %v: an event of a line has no line end", value, err)
	}
	registry := newRegistry(t, map[string]any{"schema": block(1)})
	framed := "\x00\x00\x00\x00\x07" + string(value)
	sample := func(settings string) (checkView, string) {
		env := map[string]string{}
		for setting := range strings.FieldsSeq(settings) {
			name, value, _ := strings.Cut(setting, "=")
			env[name] = value
		}
		env["SCHEMA_REGISTRY_URL"] = registry.URL
		code, stdout, stderr := feed(t, env, framed, "check", "--sample", "-", "--output", "json")
		var view checkView
		if err := json.Unmarshal([]byte(stdout), &view); !registry.isAway && (err != nil || len(view.Samples) != 1) {
			t.Fatalf("exit code %d, %v\n%s%s", code, err, stdout, stderr)
		}
		return view, stderr
	}
	with, _ := sample(block(5))
	if s := with.Samples[0]; s.Measurements != 1 || compact(t, s.Examples[0]) != compact(t, []byte(block(7))) {
		t.Errorf("%d measurements, %s, want %s", s.Measurements, s.Examples, block(7))
	}
	wanted := strings.Replace(block(5), " SCHEMA_REGISTRY_URL=http://registry:8081", "", 1)
	for settings, wanted := range map[string]string{"": wanted, "EVENT_FORMAT=avro": wanted} {
		if a := first(sample(settings)).Samples[0].Advice; a.Proposal == nil || a.Proposal.Line() != wanted {
			t.Errorf("with %q proposed is %s, %+v, want %s", settings, a.Proposal.Line(), a, wanted)
		}
	}
	registry.isAway = true
	if _, stderr := sample(block(5)); !strings.Contains(stderr, "asking the schema registry: ") || !strings.Contains(stderr, "503") {
		t.Errorf("while the registry is away: %s", stderr)
	}
}

// registry is a schema registry of schemas with the ids 7 and above.
type registry struct {
	*httptest.Server
	schemas []map[string]any
	isAway  bool
}

func newRegistry(t *testing.T, schemas ...map[string]any) *registry {
	t.Helper()
	r := &registry{schemas: schemas}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		if r.isAway {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		for i, s := range r.schemas {
			if request.URL.Path == fmt.Sprintf("/schemas/ids/%d", 7+i) {
				_ = json.NewEncoder(w).Encode(s)
				return
			}
		}
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write([]byte(`{"error_code":40403,"message":"Schema not found"}`))
	}))
	t.Cleanup(r.Close)
	return r
}

func first[A, B any](a A, _ B) A { return a }
