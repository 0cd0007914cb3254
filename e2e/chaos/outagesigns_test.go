package chaos

import (
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"waterwheel/e2e/harness"
)

// Ends of the time in which an outage is noticed: clocks of lines and pages count whole seconds, and an attempt under way
// takes its time to fail. A broker that was killed counts as in sync until its session of nine seconds is over.
const (
	noticedEarly = 2 * time.Second
	noticedLate  = 20 * time.Second
)

// sinceWhen finds, in a line of /readyz, what fails and since when.
var sinceWhen = regexp.MustCompile(`(?:partition \S+: )?(.+?) (?:has been failing|has not answered) since (\S+): `)

// wantNamed wants /readyz to name the server that is away and no other, since the outage's begin, which was made between
// early and late.
func (o outage) wantNamed(t *testing.T, c *harness.Consumer, early, late time.Time) {
	t.Helper()
	status, body, err := c.Get(t.Context(), "/readyz")
	if err != nil || status != http.StatusServiceUnavailable {
		t.Errorf("/readyz at the outage's end: status %d, %v\n%s", status, err, body)
		return
	}
	var first time.Time
	for _, found := range sinceWhen.FindAllStringSubmatch(body, -1) {
		since, err := time.Parse(time.RFC3339, found[2])
		if err != nil {
			t.Errorf("/readyz: %v", err)
		}
		if found[1] != o.reason && !(o.reason == "Kafka" && found[1] == "the dead-letter topic") { // that one is in Kafka
			t.Errorf("/readyz blames %s:\n%s", found[1], body)
		}
		if first.IsZero() || since.Before(first) {
			first = since
		}
	}
	if first.Before(early.Add(-noticedEarly)) || first.After(late.Add(noticedLate)) {
		t.Errorf("the outage began at %v; /readyz says:\n%s", late.UTC().Format(time.RFC3339), body)
	}
}

// fetches is what one fetch a partition brings, by which the budget may be exceeded.
const fetches = 4 * 2 << 20

// wantWithinMemory wants what a consumer holds to be within its budget, and the process within its limit.
func wantWithinMemory(t *testing.T, c *harness.Consumer) {
	t.Helper()
	metrics, err := c.Metrics(t.Context())
	if err != nil {
		t.Error(err)
		return
	}
	limit := metrics.Sum("waterwheel_memory_limit_bytes")
	if held := metrics.Sum("waterwheel_memory_bytes"); limit == 0 || held > limit+fetches {
		t.Errorf("%.0f bytes are held, the budget is %.0f", held, limit)
	}
	if size := metrics.Sum("process_resident_memory_bytes"); size > trialMemory {
		t.Errorf("the process has %.0f bytes, MEMORY_LIMIT is %d", size, trialMemory)
	}
}

// warning finds a warning or an error in a log, and its time.
var warning = regexp.MustCompile(`^time=(\S+) level=(?:WARN|ERROR) (msg=(?:"[^"]*"|\S+))(.*)$`)

// place finds what a line is about.
var place = regexp.MustCompile(` (?:topic|partition|reason)=\S+`)

// wantFewLines wants the log to say what is wrong during an outage, and nothing twice within ten seconds.
func wantFewLines(t *testing.T, c *harness.Consumer, begin, end time.Time) {
	t.Helper()
	const apart = 10*time.Second - 50*time.Millisecond // the line's time is taken a moment before it is let through
	last := map[string]time.Time{}
	lines := strings.Split(c.Log(), "\n")
	for _, line := range lines {
		found := warning.FindStringSubmatch(line)
		if found == nil {
			continue
		}
		at, err := time.Parse(time.RFC3339, found[1])
		if err != nil || at.Before(begin) || at.After(end) {
			continue
		}
		about := found[2] + strings.Join(place.FindAllString(found[3], -1), "")
		if before, ok := last[about]; ok && at.Sub(before) < apart {
			t.Errorf("%v after one like it: %s", at.Sub(before), line)
		}
		last[about] = at
	}
	if len(last) == 0 {
		t.Errorf("the log says nothing of the outage:\n%s", strings.Join(lines[max(0, len(lines)-20):], "\n"))
	}
	t.Logf("%d different warnings: %s", len(last), strings.Join(slices.Sorted(maps.Keys(last)), "; "))
}
