package check

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/tabwriter"
	"text/template"
	"time"

	"waterwheel/internal/measurement"
	"waterwheel/internal/record"
)

var update = flag.Bool("update", false, "write testdata/labelled.golden")

// labelled is a sample whose truth is known. Its file has a header, an empty line, and the records:
//
//	about: what the sample is, in one line
//	with: EVENT_…            settings in effect; none: the defaults
//	as: feed                 from standard input, where keys are not known; else from a topic
//	expect: EVENT_…          these settings are proposed; "fits": none are, because those in effect fit
//	expect: ? LINE | LINE    a question with these settings to choose from, and no proposal
//	expect: - text           no proposal, and this said instead; of several expectations one must hold
//	says: text               somewhere in what would be lost, or in the findings
//	keyed: yes               each line begins with the record's key and a tab; "-" is no key
//	encoding: base64         of keys and values
//	count: 600               so many records are made of the first line, which is a template; key, partition, header are templates too
type labelled struct {
	name, about, as, with, encoding, key, partition, header string
	expect, says                                            []string
	keyed                                                   bool
	count                                                   int
	shift                                                   time.Duration
	records                                                 []string
}

func readLabelled(t *testing.T, path string) labelled {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	head, body, _ := strings.Cut(string(text), "\n\n")
	l := labelled{name: strings.TrimSuffix(filepath.Base(path), ".sample"), records: strings.Split(strings.TrimRight(body, "\n"), "\n")}
	for line := range strings.SplitSeq(head, "\n") {
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		switch name {
		case "about":
			l.about = value
		case "as":
			l.as = value
		case "with":
			l.with = value
		case "expect":
			l.expect = append(l.expect, value)
		case "says":
			l.says = append(l.says, value)
		case "keyed":
			l.keyed = true
		case "encoding":
			l.encoding = value
		case "key":
			l.key = value
		case "partition":
			l.partition = value
		case "header":
			l.header = value
		case "shift":
			l.shift, err = time.ParseDuration(value)
		case "count":
			l.count, err = strconv.Atoi(value)
		default:
			t.Fatalf("%s: unknown %q", path, name)
		}
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
	}
	if l.about == "" || len(l.expect) == 0 {
		t.Fatalf("%s: about and expect are missing", path)
	}
	return l
}

// made is the data for templates of records. It has the number of the record, and random functions with a fixed seed.
type made struct {
	I int
	*rand.Rand
}

// Draw returns a random number below n.
func (m made) Draw(n int) int { return m.IntN(n) }

// Float returns a random number between from and to.
func (m made) Float(from, to float64) string {
	return strconv.FormatFloat(from+m.Float64()*(to-from), 'f', 2, 64)
}

// UUID returns a random UUID.
func (m made) UUID() string {
	return fmt.Sprintf("%08x-%04x-4%03x-8%03x-%012x", m.Uint32(), m.IntN(1<<16), m.IntN(1<<12), m.IntN(1<<12), m.Int64N(1<<48))
}

// Millis returns the time of the record, a second after the previous one.
func (m made) Millis() int64 { return labelledAt + int64(m.I)*1000 }

// Time returns the time of the record as text.
func (m made) Time(layout string) string { return time.UnixMilli(m.Millis()).UTC().Format(layout) }

// Cell returns the number of the record modulo n.
func (m made) Cell(n int) int { return m.I % n }

// Step returns the number of the record divided by n.
func (m made) Step(n int) int { return m.I / n }

// Pick returns the i-th word, modulo their number.
func (m made) Pick(i int, words ...string) string { return words[i%len(words)] }

// labelledAt is the time of a sample's first record, 2026-03-01T12:00:00Z.
const labelledAt = 1_772_366_400_000

// take gives the records of a sample to a sampler.
func (l *labelled) take(t *testing.T, s *sampler) {
	t.Helper()
	chance := rand.New(rand.NewPCG(7, 11))
	n := max(l.count, len(l.records))
	for i := range n {
		line := l.records[i%len(l.records)]
		r := record.Record{Offset: int64(i), Timestamp: labelledAt + int64(i)*1000 - l.shift.Milliseconds()}
		partition := int64(0)
		if l.count > 0 {
			m := made{i, chance}
			line = render(t, m, line)
			if l.key != "" {
				r.Key = []byte(render(t, m, l.key))
			}
			if l.header != "" {
				name, value, _ := strings.Cut(render(t, m, l.header), "=")
				r.Headers = headersOf(name, value)
			}
			if l.partition != "" {
				partition, _ = strconv.ParseInt(render(t, m, l.partition), 10, 32)
			}
		}
		if l.keyed {
			key, value, _ := strings.Cut(line, "\t")
			if line = value; key != "-" {
				r.Key = l.decode(t, key)
			}
		}
		if line != "null" {
			r.Value = l.decode(t, line)
		}
		s.take(int32(partition), &r)
	}
}

func (l *labelled) decode(t *testing.T, text string) []byte {
	if l.encoding != "base64" {
		return []byte(strings.ReplaceAll(text, "␤", "\n"))
	}
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		t.Fatalf("%s: %v", l.name, err)
	}
	return raw
}

func render(t *testing.T, m made, text string) string {
	t.Helper()
	var out bytes.Buffer
	if err := template.Must(template.New("").Parse(text)).Execute(&out, m); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// headersOf encodes one header as Kafka does.
func headersOf(name, value string) []byte {
	raw := append([]byte{2, byte(2 * len(name))}, name...)
	return append(append(raw, byte(2*len(value))), value...)
}

// settingsOf returns a function that applies settings to options.
func settingsOf(t *testing.T, line string) func(*measurement.Options) {
	return func(o *measurement.Options) {
		for setting := range strings.FieldsSeq(line) {
			switch name, value, _ := strings.Cut(setting, "="); name {
			case "EVENT_TIME_FIELD":
				o.TimeField = value
			case "EVENT_TIME_FORMAT":
				o.TimeFormat = value
			case "EVENT_META_FIELD":
				o.MetaField = value
			case "EVENT_META_FIELDS":
				o.MetaField, o.MetaFields = "", strings.Split(value, ",")
			case "EVENT_META_FROM":
				o.MetaField, o.MetaFrom = "", measurement.MetaSource(value)
			case "EVENT_FIELDS":
				o.Fields = value
			default:
				t.Fatalf("%s cannot be in effect here", setting)
			}
		}
	}
}

// judged is one row of the table.
type judged struct{ name, expected, proposed, confidence, verdict string }

// These are the verdicts.
const (
	isRight  = "right"
	isAsked  = "asked" // the expected settings are one of two candidates in a question without a proposal
	isMissed = "missed"
	isUnsaid = "unsaid" // right, but the loss is not mentioned
	isWrong  = "WRONG, WITH CONFIDENCE"
)

// judge compares the advice about a sample with the expected one.
func (l *labelled) judge(a Advice, found Findings) judged {
	row := judged{name: l.name, expected: strings.Join(l.expect, " or "), proposed: "nothing", confidence: "-", verdict: isMissed}
	var lines []string
	for _, c := range a.Choices {
		lines = append(lines, inOrder(c.Line()))
	}
	switch {
	case a.Proposal != nil:
		row.proposed, row.confidence, row.verdict = a.Proposal.Line(), string(a.Proposal.Confidence), isWrong
	case a.Question != "":
		row.proposed, row.confidence = "? "+strings.Join(lines, " | "), "low"
	case a.Unproposed != "":
		row.proposed = "- " + a.Unproposed
	default:
		row.proposed = "fits"
	}
	for _, expected := range l.expect {
		kind, rest, _ := strings.Cut(expected, " ")
		switch {
		case kind == "-":
			if a.Proposal == nil && strings.Contains(a.Unproposed+a.Question, rest) {
				row.verdict = isRight
			}
		case kind == "?":
			if a.Proposal == nil && a.Question != "" && !slices.ContainsFunc(strings.Split(rest, " | "), func(line string) bool { return !slices.Contains(lines, inOrder(line)) }) {
				row.verdict = isRight
			}
		case inOrder(row.proposed) == inOrder(expected):
			row.verdict = isRight
		case slices.Contains(lines, inOrder(expected)) && row.verdict != isRight:
			row.verdict = isAsked
		}
	}
	for _, text := range l.says {
		if row.verdict == isRight && !said(a, found, text) {
			row.verdict = isUnsaid + ": " + text
		}
	}
	return row
}

// said reports whether the advice or the findings contain a text.
func said(a Advice, found Findings, text string) bool {
	for _, p := range append(slices.Clone(a.Choices), Proposal{}) {
		if a.Proposal != nil {
			p = *a.Proposal
		}
		if slices.ContainsFunc(p.Loses, func(s string) bool { return strings.Contains(s, text) }) {
			return true
		}
	}
	return slices.ContainsFunc(found, func(f Finding) bool {
		return (f.State == Warning || f.State == Wrong) && strings.Contains(f.Text, text)
	})
}

// inOrder sorts the parts of meta in a line, because their order does not matter.
func inOrder(line string) string {
	list := strings.Fields(line)
	for i, setting := range list {
		if parts, ok := strings.CutPrefix(setting, "EVENT_META_FIELDS="); ok {
			list[i] = "EVENT_META_FIELDS=" + strings.Join(slices.Sorted(slices.Values(strings.Split(parts, ","))), ",")
		}
	}
	return strings.Join(list, " ")
}

// cutTo truncates a text for the table.
func cutTo(text string, most int) string {
	if cut := []rune(text); len(cut) > most {
		return string(cut[:most]) + "…"
	}
	return text
}

// labelledSamples returns the samples of testdata, and the recipes of docs/events.md.
func labelledSamples(t *testing.T) (list []labelled) {
	t.Helper()
	paths, err := filepath.Glob("testdata/labelled/*.sample")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		list = append(list, readLabelled(t, path))
	}
	page, err := os.ReadFile("../../docs/events.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(page), "\n## Recipes\n")
	for section := range strings.SplitSeq(text, "\n### ") {
		name, body, _ := strings.Cut(section, "\n")
		parts := strings.Split(body, "```")
		if len(parts) < 5 {
			continue
		}
		l := labelled{name: "recipe: " + name, as: "feed", records: []string{strings.TrimSpace(strings.TrimPrefix(strings.TrimPrefix(parts[1], "json\n"), "text\n"))}}
		l.expect = []string{strings.TrimSpace(strings.TrimPrefix(parts[3], "sh\n"))}
		if strings.Contains(l.expect[0], "EVENT_FRAMING=confluent") {
			l.records[0] = "\x00\x00\x00\x00\x07" + l.records[0]
		}
		if strings.Contains(l.expect[0], "EVENT_COMPRESSION=gzip") {
			l.records[0] = gzipped(t, l.records[0])
		}
		list = append(list, l)
	}
	return list
}

func gzipped(t *testing.T, text string) string {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// TestNoLabelledSampleIsProposedWrongWithConfidence judges what is proposed for samples whose truth is known. Four of five must be
// proposed right. testdata/labelled.golden keeps the table: run with -update after a change, and look at what became of each.
func TestNoLabelledSampleIsProposedWrongWithConfidence(t *testing.T) {
	var table bytes.Buffer
	columns := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintln(columns, "NAME\tEXPECTED\tPROPOSED\tCONFIDENCE\tVERDICT")
	all, right := 0, 0
	for _, l := range labelledSamples(t) {
		decoding, bucketing := eventOptions(t, settingsOf(t, l.with))
		topic := "events"
		if l.as == "feed" {
			topic = FeedName
		}
		s, err := newSampler(topic, decoding, bucketing)
		if err != nil {
			t.Fatal(err)
		}
		l.take(t, s)
		view := s.finish()
		var found Findings
		s.judge(&found)
		row := l.judge(view.Advice, found)
		fmt.Fprintf(columns, "%s\t%s\t%s\t%s\t%s\n", row.name, cutTo(row.expected, 110), cutTo(row.proposed, 110), row.confidence, row.verdict)
		all++
		switch row.verdict {
		case isRight:
			right++
		case isWrong:
			t.Errorf("%s: %s is proposed with confidence, and %s is right", row.name, row.proposed, row.expected)
		}
	}
	_ = columns.Flush() // of a buffer
	fmt.Fprintf(&table, "\n%d of %d are right.\n", right, all)
	t.Logf("\n%s", &table)
	if right*5 < all*4 {
		t.Errorf("%d of %d are proposed right, fewer than four of five", right, all)
	}
	const golden = "testdata/labelled.golden"
	if *update {
		if err := os.WriteFile(golden, table.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want, err := os.ReadFile(golden); err != nil || !bytes.Equal(want, table.Bytes()) {
		t.Errorf("the table is not that of %s (%v): look at the differences, then run with -update", golden, err)
	}
}
