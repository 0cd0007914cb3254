package main

import (
	"fmt"

	"waterwheel/bucketer"
	"waterwheel/measurement"
	"waterwheel/record"
)

// A record that makes our own code panic, by a bug, is a letter (internal_error) for the consumer. Commands that look at
// such a record say the same of it, for that is when they are needed.

// decode is Decoder.Decode; a panic becomes the record's error.
func decode(d *measurement.Decoder, r record.Record) (results []measurement.Result, err error) {
	defer caughtPanic(&err)
	return d.Decode(r)
}

// insert is Catalog.Insert; a panic becomes the measurement's error. sound tells whether the catalog may be used again.
func insert(c *bucketer.Catalog, m *measurement.Measurement) (sound bool, err error) {
	defer caughtPanic(&err)
	err = c.Insert(m)
	return true, err
}

// caughtPanic turns a panic into the error that the record's letter has.
func caughtPanic(err *error) {
	if cause := recover(); cause != nil {
		*err = &measurement.DecodeError{
			Reason: measurement.InternalError, Detail: fmt.Sprintf("the program failed on it: %v", cause), Part: record.WholeRecord,
		}
	}
}
