package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"waterwheel/cmd/consumer/internal/text"
)

// FindingState says how much a finding matters.
type FindingState string

// The states of findings.
const (
	findingOK      FindingState = "ok"
	findingNote    FindingState = "note"    // worth knowing
	findingWarning FindingState = "warning" // works, and may cost something
	findingWrong   FindingState = "wrong"   // does not work, or breaks the guarantee
)

// Finding is one line of what check found.
type Finding struct {
	State   FindingState `json:"state"`
	Subject string       `json:"subject"`
	Text    string       `json:"text"`
	// WayOut says what to do about it; empty: nothing.
	WayOut string `json:"wayOut,omitempty"`
}

// findings are what check found, in its order.
type findings struct{ list []Finding }

func (f *findings) ok(subject, format string, args ...any) {
	f.list = append(f.list, Finding{findingOK, subject, fmt.Sprintf(format, args...), ""})
}

func (f *findings) note(subject, format string, args ...any) {
	f.list = append(f.list, Finding{findingNote, subject, fmt.Sprintf(format, args...), ""})
}

func (f *findings) warn(subject, wayOut, format string, args ...any) {
	f.list = append(f.list, Finding{findingWarning, subject, fmt.Sprintf(format, args...), wayOut})
}

func (f *findings) wrong(subject, wayOut, format string, args ...any) {
	f.list = append(f.list, Finding{findingWrong, subject, fmt.Sprintf(format, args...), wayOut})
}

// failed is an error of one of the servers; its text says the way out.
func (f *findings) failed(subject string, err error) { f.wrong(subject, "", "%v", err) }

// count counts the findings of a state.
func (f *findings) count(state FindingState) (n int) {
	for _, one := range f.list {
		if one.State == state {
			n++
		}
	}
	return n
}

// print prints a table, ways out below their findings.
func (f *findings) print(w io.Writer) {
	widest := slices.MaxFunc(f.list, func(a, b Finding) int { return len([]rune(a.Subject)) - len([]rune(b.Subject)) })
	width := len([]rune(widest.Subject))
	for _, one := range f.list {
		fmt.Fprintf(w, "%-8s %-*s  %s\n", one.State, width, one.Subject, text.Printable(one.Text))
		if one.WayOut != "" {
			fmt.Fprintf(w, "%s→ %s\n", strings.Repeat(" ", 8+1+width+2), text.Printable(one.WayOut))
		}
	}
	wrong, warnings := f.count(findingWrong), f.count(findingWarning)
	if wrong == 0 && warnings == 0 {
		fmt.Fprintln(w, "\nNothing is wrong.")
		return
	}
	fmt.Fprintf(w, "\n%d wrong, %d warnings.\n", wrong, warnings)
}
