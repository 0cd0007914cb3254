package measurement

import (
	"fmt"

	"waterwheel/internal/record"
)

// Guard, when deferred, turns a panic into the error of the record's dead letter. A record that triggers a bug must not end the
// program. Guard calls panicked with the cause, unless panicked is nil.
func Guard(err *error, panicked func(cause any)) {
	cause := recover()
	if cause == nil {
		return
	}
	if panicked != nil {
		panicked(cause)
	}
	*err = &DecodeError{Reason: InternalError, Detail: fmt.Sprintf("a bug of waterwheel: decoding this record failed with %v; please report this", cause), Part: record.WholeRecord}
}

// TryDecode is Decode, but turns a panic into the record's error.
func (d *Decoder) TryDecode(r record.Record) (results []Result, err error) {
	defer Guard(&err, nil)
	return d.Decode(r)
}
