package check

import "fmt"

// State says how much a finding matters.
type State string

// The states of findings.
const (
	OK      State = "ok"
	Note    State = "note"    // worth knowing
	Warning State = "warning" // works, and may cost something
	Wrong   State = "wrong"   // does not work, or breaks the guarantee
)

// Finding is one line of what was found.
type Finding struct {
	State   State  `json:"state"`
	Subject string `json:"subject"`
	Text    string `json:"text"`
	// WayOut says what to do about it. Empty means nothing.
	WayOut string `json:"wayOut,omitempty"`
}

// Findings are what was found, in its order.
type Findings []Finding

// OK adds a good finding.
func (f *Findings) OK(subject, format string, args ...any) {
	*f = append(*f, Finding{OK, subject, fmt.Sprintf(format, args...), ""})
}

// Note adds a finding that is worth knowing.
func (f *Findings) Note(subject, format string, args ...any) {
	*f = append(*f, Finding{Note, subject, fmt.Sprintf(format, args...), ""})
}

// Warn adds what works and may cost something.
func (f *Findings) Warn(subject, wayOut, format string, args ...any) {
	*f = append(*f, Finding{Warning, subject, fmt.Sprintf(format, args...), wayOut})
}

// Wrong adds what does not work.
func (f *Findings) Wrong(subject, wayOut, format string, args ...any) {
	*f = append(*f, Finding{Wrong, subject, fmt.Sprintf(format, args...), wayOut})
}

// Failed adds an error of one of the servers; its text says the way out.
func (f *Findings) Failed(subject string, err error) { f.Wrong(subject, "", "%v", err) }

// Count counts the findings of a state.
func (f Findings) Count(state State) (n int) {
	for _, one := range f {
		if one.State == state {
			n++
		}
	}
	return n
}

// plural counts things.
func plural(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return count(n) + " " + thing + "s"
}

// count writes a number with separators.
func count(n int) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
