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

// An outage must be noticed between these times. The times in log lines and pages are whole seconds, and an attempt in progress
// needs time to fail. A killed broker counts as in sync until its session of nine seconds ends.
const (
	noticedEarly = 2 * time.Second
	noticedLate  = 20 * time.Second
)

// sinceWhen matches a line of /readyz: what fails, and since when.
var sinceWhen = regexp.MustCompile(`(?:partition \S+: )?(.+?) (?:has been failing|has not answered) since (\S+): `)

// wantNamed checks that /readyz names only the server that is down, and the begin of the outage, which was between early and
// late.
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
		if found[1] != o.reason && !(o.reason == "Kafka" && found[1] == "the dead-letter topic") { // the dead-letter topic is in Kafka
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

// fetches is the size of one fetch for each partition. The budget may be exceeded by it.
const fetches = 4 * 2 << 20

// wantWithinMemory checks that a consumer is within its memory budget, and its process within the limit.
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

// warning matches a warning or an error in a log, with its time.
var warning = regexp.MustCompile(`^time=(\S+) level=(?:WARN|ERROR) (msg=(?:"[^"]*"|\S+))(.*)$`)

// place matches the attributes that tell what a line is about.
var place = regexp.MustCompile(` (?:topic|partition|reason)=\S+`)

// wantFewLines checks that the log reports the outage, and does not repeat a line within ten seconds.
func wantFewLines(t *testing.T, c *harness.Consumer, begin, end time.Time) {
	t.Helper()
	const apart = 10*time.Second - 50*time.Millisecond // the time of a line is taken shortly before it is let through
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
