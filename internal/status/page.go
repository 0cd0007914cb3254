package status

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"strings"
	"time"

	"waterwheel/internal/cli/text"
	"waterwheel/internal/words"
)

//go:embed status.html
var statusHTML string

//go:embed manual.html
var manualHTML string

//go:embed page.css
var pageCSS string

//go:embed page.js
var pageScript string

var (
	statusTemplate = template.Must(template.New("status").Funcs(template.FuncMap{
		"bytes": text.Bytes, "ago": ago, "seconds": text.Seconds, "offset": text.Number, "grouped": text.Grouped, "style": style,
	}).Parse(statusHTML))
	manualTemplate = template.Must(template.New("manual").Funcs(template.FuncMap{"style": style}).Parse(manualHTML))
)

func style() template.CSS { return template.CSS(pageCSS) }

// page is the data of status.html.
type page struct {
	Snapshot
	Headline Headline
	Charts   []chart
	Wall     []row
	Hidden   int // number of partitions that the wall leaves out
	Events   []row
	Settings []Setting
}

// Setting is an effective setting. Secrets are masked.
type Setting struct{ Name, Value string }

// Headline is the first sentence of the page.
type Headline struct {
	Text string `json:"text"`
	// State says how bad it is: fresh, late, waiting or stopped.
	State string `json:"state"`
	// Runbook is the section of docs/runbook.md that says what to do. Empty means that nothing needs to be done.
	Runbook string `json:"runbook,omitempty"`
}

// warning is the headline of a consumer that is ready but has a problem.
func warning(s *Snapshot) Headline {
	return Headline{Text: "Ready, with a warning: " + s.Degraded[0].Text + more(len(s.Degraded)-1), State: "late", Runbook: s.Degraded[0].Runbook}
}

// retried says what partitions are retrying, in brackets. It is empty if they retry nothing.
func retried(operation []string) string {
	if len(operation) == 0 {
		return ""
	}
	slices.Sort(operation)
	return " (retrying: " + strings.Join(slices.Compact(operation), ", ") + ")"
}

// headline summarizes the state of the consumer in one sentence.
func headline(s *Snapshot, v *hourSeen) Headline {
	switch {
	case s.Starting:
		return Headline{Text: "Starting: " + s.NotReady[0].Text, State: "waiting", Runbook: s.NotReady[0].Runbook}
	case len(s.NotReady) > 0:
		first := s.NotReady[0]
		return Headline{Text: "Not ready: " + first.Text + more(len(s.NotReady)-1), State: "stopped", Runbook: first.Runbook}
	case len(s.Partitions) == 0 && len(s.Degraded) > 0:
		return warning(s)
	case len(s.Partitions) == 0:
		return Headline{Text: "Ready. This consumer has no partition: the group has more members than partitions, or is assigning partitions now.", State: "waiting"}
	}
	last := v.lastMinute(s.Done.Stored)
	stored := text.Grouped(last) + " " + words.Form(last, "measurement", "measurements") + " stored in the last minute"
	about := ""
	if letters := int64(v.lastHour(deadLettersOf)); letters > 0 {
		stored += ", " + text.Grouped(letters) + " dead " + words.Form(letters, "letter", "letters") + " in the last hour"
		about = aboutDeadLetters
	}
	oldest, unknown, late := 0.0, 0, 0
	var retrying []string // by partitions that are late
	for i := range s.Partitions {
		age := s.Partitions[i].FreshnessSeconds
		if age == nil {
			unknown++
			continue
		}
		oldest = max(oldest, *age)
		if *age > s.lateAfter.Seconds() {
			late++
			retrying = append(retrying, s.Partitions[i].Retrying...)
		}
	}
	partitions, oldestAge := words.Count(len(s.Partitions), "partition"), Age(oldest)
	all := partitions
	if len(s.Partitions) > 1 {
		all = "all " + partitions
	}
	switch {
	case late > 0:
		return Headline{
			Text:  fmt.Sprintf("%d of %s %s late, by up to %s%s; %s.", late, partitions, words.Form(late, "is", "are"), oldestAge, retried(retrying), stored),
			State: "late", Runbook: aboutLate,
		}
	case len(s.Degraded) > 0:
		return warning(s)
	case unknown > 0:
		return Headline{Text: fmt.Sprintf("Ready; the age of %d of %s is not known yet; %s.", unknown, partitions, stored), State: "waiting", Runbook: about}
	case oldest == 0:
		return Headline{Text: "Ready: " + all + " stored up to the end of the log; " + stored + ".", State: "fresh", Runbook: about}
	}
	return Headline{Text: "Ready: " + all + " stored up to " + oldestAge + " ago; " + stored + ".", State: "fresh", Runbook: about}
}

// ago formats how long before now something was.
func ago(now, then time.Time) string {
	if then.IsZero() {
		return "never"
	}
	return age(now.Sub(then)) + " ago"
}

// more says how many other sentences there are.
func more(others int) string {
	if others == 0 {
		return ""
	}
	return fmt.Sprintf(" (and %d more below)", others)
}

// lastMinute returns how many measurements were stored in the last minute. stored is the number since the start of the process.
func (v *hourSeen) lastMinute(stored int64) int64 {
	const samples = int(time.Minute / sampleInterval)
	for i := hourSamples - 1 - samples; i >= 0; i-- {
		if s := &v.samples[i]; s.tick != 0 {
			return stored - s.total
		}
	}
	for i := hourSamples - samples; i < hourSamples; i++ {
		if s := &v.samples[i]; s.tick != 0 {
			return stored - s.before
		}
	}
	return stored
}

// page assembles the data of the page.
func (v *View) page(s *Snapshot) *page {
	seen := v.hour.until(s.At)
	p := &page{Snapshot: *s, Headline: headline(s, seen), Charts: seen.charts(), Events: seen.eventRows(), Settings: v.o.Settings}
	p.Wall, p.Hidden = seen.wallRows()
	return p
}

// render writes the whole page, or an error.
func render(w http.ResponseWriter, with *template.Template, view any) {
	var page bytes.Buffer
	if err := with.Execute(&page, view); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = page.WriteTo(w) // fails only if the client is gone
}
