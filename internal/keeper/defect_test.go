package keeper

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// edit replaces a text of a file.
type edit struct{ file, text, instead string }

// defects are mistakes in the source of the protocol. The model must notice each of them.
var defects = []struct {
	name  string
	edits []edit
}{
	{"the watermark moves before the rows are acknowledged", []edit{
		{"pass.go", "for _, mark := range marks {", "if _, err := w.rollups.Move(ctx, &p.Owned, marks, raised(marks, p)); err != nil {\n\t\treturn false, err\n\t}\n\tfor _, mark := range marks {"},
		{"pass.go", "// positions computes", "func raised(marks []rollup.Watermark, p *Partition) (next []rollup.Watermark) {\n\tfor _, m := range marks {\n\t\tif m.Topic() == p.Source.TopicID {\n\t\t\tm.Below = max(m.Below, p.Done)\n\t\t}\n\t\tnext = append(next, m)\n\t}\n\treturn next\n}\n\n// positions computes"},
	}},
	{"the watermark moves whoever has the partition, and whatever it was", []edit{
		{"../../sink/rollup.go", "mongodb.Document(append(o.is(), bson.E{Key: rollup.FieldWatermarks, Value: before}))", "mongodb.WithID(o.ID)"},
	}},
	{"a claim does not lower the watermark", []edit{{"../../sink/rollup.go", "rollup.Lowered(list, p.source.TopicID, start)", "rollup.Lowered(list, p.source.TopicID, 1<<62)"}}},
	{"a document is replaced whatever its revision", []edit{
		{"../../sink/rolluprows.go", "{Key: rollup.PathRevision, Value: d.Revision - 1},\n", "\n"},
	}},
	{"the sources are read before the revision", []edit{
		{"compute.go", "targets, err := w.targets(ctx, r)\n\tif err != nil {\n\t\treturn nil, err\n\t}\n\tbegan", "began"},
		{"compute.go", "w.size = len(some) * aimedPerLook", "targets, err := w.targets(ctx, r)\n\t\tif err != nil {\n\t\t\treturn nil, err\n\t\t}\n\t\tw.size = len(some) * aimedPerLook"},
	}},
	{"a document is not replaced by an equal one", []edit{
		{"compute.go", "d.dirty = true\n\t\t\tif w.replaceHour", "before := string((&d.Document).Encode(d.level.Options(w.state.Options)))\n\t\t\tdefer func() { d.dirty = d.dirty || string((&d.Document).Encode(d.level.Options(w.state.Options))) != before }()\n\t\t\tif w.replaceHour"},
	}},
	{"there is no fence", []edit{
		{"../../sink/rollup.go", "done, err := mongodb.Changed(r.write(ctx, func(ctx context.Context) (mongodb.Reply, error) {\n\t\treturn r.ports.Partitions.Update(ctx, []mongodb.Update{{\n\t\t\tFilter: mongodb.Document(o.is()), Update: mongodb.Set(bson.D{{Key: fieldRolled, Value: now}}),\n\t\t}})\n\t}))", "_, done, err := now, true, error(nil)"},
	}},
	{"the watermark moves to what was done after the scan", []edit{{"pass.go", "mark.Below = max(mark.Below, to)", "mark.Below = max(mark.Below, to+2)"}}},
	{"a position counts as often as it is shown", []edit{{"source.go", "return again", "return again && false"}}},
	{"a note goes before the edit is over", []edit{{"pass.go", "if err != nil || !over {", "if err != nil {"}}},
	{"a note goes without computing its rows", []edit{{"pass.go", "err = free.compute(ctx, hours.runs(), days.runs(), nil)", "_ = hours"}}},
	{"rows may shrink", []edit{{"compute.go", "if w.free {\n\t\td.Replace", "if true {\n\t\td.Replace"}}},
	{"frozen hours are read", []edit{{"compute.go", "if kept := w.state.Options.ExpireAfterSeconds; kept > 0 &&", "if kept := w.state.Options.ExpireAfterSeconds; kept < 0 &&"}, {"compute.go", "if countOf(one, count) < countOf(rollup.Within(d.Rows, at, at+step), count) {", "if false {"}}},
	{"days are folded from hours that were read before them", []edit{
		{"days.go", "targets, err := w.documents(ctx, level, run{first, last, r.keys})\n\tif err != nil {\n\t\treturn nil, err\n\t}\n", ""},
		{"days.go", "defined, _ := w.state.Defined.Level(rollup.Day)", "targets, err := w.documents(ctx, level, run{first, last, r.keys})\n\tif err != nil {\n\t\treturn nil, err\n\t}\n\tdefined, _ := w.state.Defined.Level(rollup.Day)"},
	}},
	{"segments are not read", []edit{{"compute.go", "if w.state.Segments {", "if false {"}}},
	{"a note is over before queries see the edit", []edit{{"../../sink/rollup.go", "if shown.After(now) {", "if false {"}}},
	{"an edit does not say when queries see it", []edit{{"../collection/selectionedit.go", "e.edited.Shown = b.from", "_ = b.from"}}},
	{"a note counts as computed before queries see the edit", []edit{{"pass.go", "whole = !n.Edited.IsZero() && !now.Before(n.Edited)", "whole = !n.Edited.IsZero()"}}},
	{"series are deleted that no note names", []edit{{"../collection/selectionedit.go", "if d.series == nil || d.series[b.series()] {", "if true {"}}},
	{"a former topic is dropped before it is computed", []edit{{"pass.go", "to = math.MaxInt64", "to = mark.Below + math.MaxInt64*0"}}},
}

// TestDefectsFit checks that the source still has the text of each defect.
func TestDefectsFit(t *testing.T) {
	for _, d := range defects {
		damaged(t, t.TempDir(), d.edits)
	}
}

var noticed = regexp.MustCompile(`(?m)^ *\w+_test\.go:\d+: ((?:seed|in the order|an equal|an early).*)`)

// TestModelNoticesEachDefect runs the model on damaged copies of the source. It takes minutes, so only make sim runs it.
func TestModelNoticesEachDefect(t *testing.T) {
	if os.Getenv("ROLLUP_DEFECTS") == "" {
		t.Skip("set ROLLUP_DEFECTS=1: it builds the model once for each defect")
	}
	for _, d := range defects {
		t.Run(d.name, func(t *testing.T) {
			found := noticed.FindStringSubmatch(runDamaged(t, d.edits))
			if found == nil {
				t.Fatal("it was not noticed")
			}
			t.Log(found[1])
		})
	}
}

// damaged writes damaged copies of files to a directory. It returns the path of each copy by the path of its original.
func damaged(t *testing.T, dir string, edits []edit) map[string]string {
	t.Helper()
	copies := map[string]string{}
	for _, e := range edits {
		path, err := filepath.Abs(e.file)
		if err != nil {
			t.Fatal(err)
		}
		from := path
		if copies[path] != "" {
			from = copies[path]
		}
		text, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Count(string(text), e.text) != 1 {
			t.Fatalf("%s has %q %d times", e.file, e.text, strings.Count(string(text), e.text))
		}
		copies[path] = filepath.Join(dir, filepath.Base(path))
		if err := os.WriteFile(copies[path], []byte(strings.Replace(string(text), e.text, e.instead, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return copies
}

// runDamaged runs the model with a damaged source, and returns its output.
func runDamaged(t *testing.T, edits []edit) string {
	t.Helper()
	dir := t.TempDir()
	overlay, err := json.Marshal(map[string]any{"Replace": damaged(t, dir, edits)})
	if err != nil {
		t.Fatal(err)
	}
	list := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(list, overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, "go", "test", "-vet=off", "-count=1", "-overlay="+list, "-run=^(TestModel|TestCommandsOfAPassComeInOrder|TestEqualRowsAreWritten|TestNoteStaysUntilItsEditIsLongOver)$", ".", "-model.runs=1500", "-model.seed=1")
	out, err := command.CombinedOutput()
	if err == nil || strings.Contains(string(out), "[build failed]") {
		t.Fatalf("it was not noticed, or not built: %v\n%s", err, out)
	}
	return string(out)
}
