package check

import "fmt"

// State is how much a finding matters.
type State string

// These are the states of findings.
const (
	OK      State = "ok"
	Note    State = "note"    // worth knowing
	Warning State = "warning" // works, and may cost something
	Wrong   State = "wrong"   // does not work, or breaks the guarantee
)

// Finding is one line of the result.
type Finding struct {
	State   State  `json:"state"`
	Subject string `json:"subject"`
	Text    string `json:"text"`
	// WayOut says what to do about it. Empty means that there is nothing to do.
	WayOut string `json:"wayOut,omitempty"`
}

// Findings are the result, in order.
type Findings []Finding

// OK adds a good finding.
func (f *Findings) OK(subject, format string, args ...any) {
	*f = append(*f, Finding{OK, subject, fmt.Sprintf(format, args...), ""})
}

// Note adds a finding that is worth knowing.
func (f *Findings) Note(subject, format string, args ...any) {
	*f = append(*f, Finding{Note, subject, fmt.Sprintf(format, args...), ""})
}

// Warn adds a finding that works but may cost something.
func (f *Findings) Warn(subject, wayOut, format string, args ...any) {
	*f = append(*f, Finding{Warning, subject, fmt.Sprintf(format, args...), wayOut})
}

// Wrong adds a finding that does not work.
func (f *Findings) Wrong(subject, wayOut, format string, args ...any) {
	*f = append(*f, Finding{Wrong, subject, fmt.Sprintf(format, args...), wayOut})
}

// Failed adds an error of one of the servers. The error's text includes the way out.
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

// plural formats a number of things.
func plural(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return count(n) + " " + thing + "s"
}

// count formats a number with thousands separators.
func count(n int) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
