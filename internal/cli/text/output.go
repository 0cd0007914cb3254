package text

import (
	"encoding/json"
	"io"
	"sync/atomic"
)

// Output keeps the first error of a writer, so that those who print need not ask after each line. Nothing is written after it.
type Output struct {
	Writer io.Writer
	// Terminal: a person reads it on one.
	Terminal bool
	Err      error
	begun    atomic.Bool
}

// Begun reports whether anything was written. It may be called from other goroutines.
func (o *Output) Begun() bool { return o.begun.Load() }

// Write writes, unless that failed before.
func (o *Output) Write(p []byte) (n int, err error) {
	if o.Err == nil {
		o.begun.Store(true)
		n, o.Err = o.Writer.Write(p)
	}
	return n, o.Err
}

// WriteJSON writes a value as JSON that people can read as well.
func WriteJSON(w io.Writer, value any) error { return encode(w, value, "  ") }

// WriteJSONLine writes a value as one line of JSON.
func WriteJSONLine(w io.Writer, value any) error { return encode(w, value, "") }

// encode leaves <, > and & as they are: no output is put into a page as it is.
func encode(w io.Writer, value any, indent string) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", indent)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(value)
}
