package pipeline_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// defect is a bug to put into the product's source. instead replaces text in a file.
type defect struct {
	name, file, text, instead string
	runs                      int // number of runs within which the simulation must notice the defect
}

// defects concern code outside of the worker that the simulation shares with the program. This code carries out actions, decides
// which commits are wanted and due, delivers their answers, and limits the offset to commit.
var defects = []defect{
	{"an offset beyond what is done", "commit.go", "due = append(due, c)", "c.Offset++\n\t\t\tdue = append(due, c)", 20},
	{"a lease that is never renewed", "commit.go", "now-p.renewed >= p.renewal", "false", 50},
	{"an answer told to another worker", "commit.go", "tell(index[due[i].Partition], heard)", "tell((index[due[i].Partition]+1)%len(workers), heard)", 500},
	{"the fetch position as done", "commit.go", "offset = w.committable()", "offset = w.offsetTracker.next", 20},
	{"a record passed over whose schema is not known", "stream.go", "if w.needed != nil {\n\t\t\tw.offsetTracker.next = r.Offset", "if w.needed != nil {\n\t\t\tw.offsetTracker.next = r.Offset + 1", 100},
	{"refused measurements that hold no commit", "commit.go", "offset = min(offset, r.Position.Offset)", "_ = r", 20},
	{"a start that a document decides, which may be an old one, as ours", "commit.go", "w.term.committed.Consumed && !w.term.claimed {", "false {", 5000},
	{"the first commit that was wanted, for ever", "action.go", "old == nil || *old != want", "old == nil", 20},
	{
		"the ports of before a restart", "action.go", "{ x.log, x.store = x.ports.Open(a.Source) }",
		"{\n\tif x.store == nil {\n\t\tx.log, x.store = x.ports.Open(a.Source)\n\t}\n}", 1000,
	},
	{"a claim without an answer taken as won", "action.go", "return Claimed{won, err}", "return Claimed{won || err != nil, nil}", 50},
	{"D of another window", "action.go", "x.store.Stored(ctx, a.Start, a.End)", "x.store.Stored(ctx, a.Start+1, a.End)", 50},
	{
		"every write taken as applied", "action.go", "return WritesSent{x.store.Send(ctx, a.Writes)}",
		"sent := x.store.Send(ctx, a.Writes)\n\t\tfor i := range sent {\n\t\t\tsent[i].Result = 0\n\t\t}\n\t\treturn WritesSent{sent}", 50,
	},
	{
		"every read-back taken as applied", "action.go", "return WritesResolved{found, err}",
		"clear(found)\n\t\treturn WritesResolved{found, err}", 50,
	},
	{
		"letters that are not acknowledged taken as written", "action.go", "return DeadLettersProduced{written, err}",
		"err = nil\n\t\treturn DeadLettersProduced{written, err}", 200,
	},
	{
		"a turn that is asked for when the call is over", "../sink/send.go", "defer b.turns.end(begun)",
		"defer func() {\n\t\tif b.turns.end(begun); err != nil {\n\t\t\tif _, ok := b.turns.begin(ctx); !ok {\n\t\t\t\terr = &mongodb.NotSentError{Err: claim.ErrNoTurn}\n\t\t\t}\n\t\t}\n\t}()", 200,
	},
	{"a failed fetch taken as empty", "action.go", "return Fetched{batch, err}", "err = nil\n\t\treturn Fetched{batch, err}", 200},
}

// TestDefectsFit checks that the text of each defect still exists in its file.
func TestDefectsFit(t *testing.T) {
	for _, d := range defects {
		d.damaged(t)
	}
}

var failedSeed = regexp.MustCompile(`seed (\d+): (.*)`)

// TestSimulationNoticesEachDefect builds the simulation with one defect after the other, and prints the number of runs until the
// simulation notices it.
func TestSimulationNoticesEachDefect(t *testing.T) {
	if !*simDefects {
		t.Skip("it builds the package once for each defect: make sim does")
	}
	for _, d := range defects {
		t.Run(d.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
			defer cancel()
			simulation := d.build(ctx, t)
			run := exec.CommandContext(ctx, simulation, "-test.run", "^TestSimulation$", "-sim.runs", strconv.Itoa(d.runs), "-sim.options=false")
			out, err := run.CombinedOutput()
			noticed := failedSeed.FindStringSubmatch(string(out))
			if err == nil || noticed == nil {
				t.Fatalf("it was not noticed in %d runs: %v\n%s", d.runs, err, out)
			}
			t.Logf("%5s runs  %s", noticed[1], noticed[2])
		})
	}
}

// damaged returns the text of the file with the defect.
func (d *defect) damaged(t *testing.T) string {
	t.Helper()
	source, err := os.ReadFile(d.file)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(source), d.text); n != 1 {
		t.Fatalf("%s has %q %d times", d.file, d.text, n)
	}
	return strings.Replace(string(source), d.text, d.instead, 1)
}

// build compiles the tests of this package with the defect, and returns the program.
func (d *defect) build(ctx context.Context, t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	file, err := filepath.Abs(d.file)
	if err != nil {
		t.Fatal(err)
	}
	broken, overlay, program := filepath.Join(dir, filepath.Base(d.file)), filepath.Join(dir, "overlay.json"), filepath.Join(dir, "simulation")
	replaced, err := json.Marshal(map[string]map[string]string{"Replace": {file: broken}})
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{
		broken: d.damaged(t), overlay: string(replaced),
	} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.CommandContext(ctx, "go", "test", "-c", "-overlay", overlay, "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("go test -c: %v\n%s", err, out)
	}
	return program
}
