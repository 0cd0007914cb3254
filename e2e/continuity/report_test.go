package continuity

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestReport(t *testing.T) {
	seconds := func(n int) time.Duration { return time.Duration(n) * time.Second }
	exact := Looking{Looks: 100, Mean: 55 * time.Millisecond, Most: 90 * time.Millisecond}
	r := &Report{Settings: map[string]string{"FLUSH_INTERVAL": "2s", "COMMIT_INTERVAL": "1s"}, Partitions: 12, Results: []Result{
		{
			Scenario: "kill", What: "a consumer killed", Before: Gap{12, 3, seconds(6), seconds(5)}, Own: Gap{4, 1, seconds(63), seconds(58)},
			Others: Gap{8, 2, seconds(26), seconds(25)}, Moved: 4, Recovered: seconds(70), Freshness: Freshness{9, seconds(2), seconds(60), seconds(61)},
			Looking: exact, Valid: 1000, Stored: 1000,
		},
		{Scenario: "rolling", What: "all restarted", Before: Gap{12, 3, seconds(6), seconds(5)}, Looking: Looking{Most: 1100 * time.Millisecond}},
	}}
	text := r.Markdown()
	for _, want := range []string{
		"| a consumer killed | 5.0–6.0 (12) | 58.0–63.0 (4) | 25.0–26.0 (8) | 4 | 70.0 | – | 2.0 / 60.0 / 61.0 | 55 / 90 | 1000 of 1000 |\n",
		"beside the usual ones: `COMMIT_INTERVAL=1s`, `FLUSH_INTERVAL=2s`\n", "\nrolling: a look came 1100 ms after the one before",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("there is no %q in\n%s", want, text)
		}
	}
	if strings.Contains(text, "\nkill: a look") {
		t.Errorf("a look each 90 ms is said to be coarse:\n%s", text)
	}
	path := filepath.Join(t.TempDir(), "out.json")
	if err := r.Write(path); err != nil {
		t.Fatal(err)
	}
	written, err := os.ReadFile(path)
	var read Report
	if err != nil || json.Unmarshal(written, &read) != nil || read.Markdown() != text {
		t.Errorf("the file holds %s (%v)", written, err)
	}
}

func TestOptions(t *testing.T) {
	good := Options{Scenarios: Names(), Rate: 100, Series: 4, Partitions: 4, Before: 1, After: 1, Patience: 1}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	for name, spoil := range map[string]func(*Options){
		"no scenarios":                    func(o *Options) { o.Scenarios = nil },
		`named "none"`:                    func(o *Options) { o.Scenarios = []string{"kill", "none"} },
		"3 partitions":                    func(o *Options) { o.Partitions = 3 },
		"3 series, fewer than partitions": func(o *Options) { o.Series = 3 },
		"3 measurements a second":         func(o *Options) { o.Rate = 3 },
		"times of 1ns, 0s and 1ns":        func(o *Options) { o.After = 0 },
	} {
		o := good
		spoil(&o)
		if err := o.Validate(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
