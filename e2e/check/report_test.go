package check

import (
	"os"
	"strings"
	"testing"
)

// TestWhatIsWrongIsAVerdict checks that every fault is reported as a verdict, which a second run of the test does not excuse.
func TestWhatIsWrongIsAVerdict(t *testing.T) {
	for name, r := range map[string]*Report{
		"missing": {Missing: 1}, "doubled": {Doubled: 1}, "unknown": {Unknown: 1}, "not committed": {Uncommitted: 1}, "a fault": {FaultCount: 1},
	} {
		if err := r.Err(); err == nil || !strings.HasPrefix(err.Error(), Verdict) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := (&Report{Valid: 3, Stored: 3}).Err(); err != nil {
		t.Errorf("all stored once: %v", err)
	}
	source, err := os.ReadFile("../../tools/testreport/main.go")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(source), strings.TrimSuffix(Verdict, ": ")) {
		t.Errorf("tools/testreport, which is of another module, does not know %q", Verdict)
	}
}
