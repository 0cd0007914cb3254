package measurement

import (
	"fmt"

	"waterwheel/internal/record"
)

// Guard, deferred, turns a panic into the error that the record's letter has: a record that makes the program fail, by a bug,
// is a letter and no reason to end. panicked, unless it is nil, is told the cause.
func Guard(err *error, panicked func(cause any)) {
	cause := recover()
	if cause == nil {
		return
	}
	if panicked != nil {
		panicked(cause)
	}
	*err = &DecodeError{Reason: InternalError, Detail: fmt.Sprintf("the program failed on it: %v", cause), Part: record.WholeRecord}
}

// TryDecode is Decode; a panic becomes the record's error.
func (d *Decoder) TryDecode(r record.Record) (results []Result, err error) {
	defer Guard(&err, nil)
	return d.Decode(r)
}
