package measurement

import "fmt"

// Reason says why a record or an element of it cannot be stored. The set of reasons is closed. Every reason is a label of a
// metric, an entry of the runbook, and a test.
type Reason string

// The reasons.
const (
	NotJSON           Reason = "not_json"
	NotBSON           Reason = "not_bson"
	NotInflux         Reason = "not_influx"
	NotOTLP           Reason = "not_otlp"
	NotAvro           Reason = "not_avro"
	NotProtobuf       Reason = "not_protobuf"
	NotObject         Reason = "not_object"
	Empty             Reason = "empty"
	BadSchema         Reason = "bad_schema"
	UnknownSchema     Reason = "unknown_schema"
	BadCompression    Reason = "bad_compression"
	MissingTime       Reason = "missing_time"
	BadTime           Reason = "bad_time"
	TimeOutOfRange    Reason = "time_out_of_range"
	MissingMeta       Reason = "missing_meta"
	MissingField      Reason = "missing_field"
	BadMeta           Reason = "bad_meta"
	BadFieldName      Reason = "bad_field_name"
	DuplicateField    Reason = "duplicate_field"
	TooDeep           Reason = "too_deep"
	TooLarge          Reason = "too_large"
	BadNumber         Reason = "bad_number"
	BadUTF8           Reason = "bad_utf8"
	BadElements       Reason = "bad_elements"
	Unreadable        Reason = "unreadable"
	RefusedByDatabase Reason = "refused_by_database"
	InternalError     Reason = "internal_error"
)

// Reasons lists all reasons, in the order of the documents.
func Reasons() []Reason {
	return []Reason{
		NotJSON, NotBSON, NotInflux, NotOTLP, NotAvro, NotProtobuf, BadSchema, UnknownSchema, BadCompression, NotObject, Empty, MissingTime, BadTime, TimeOutOfRange, MissingMeta, BadMeta, MissingField,
		BadFieldName, DuplicateField, TooDeep, TooLarge, BadNumber, BadUTF8, BadElements, Unreadable, RefusedByDatabase,
		InternalError,
	}
}

// DecodeError says what is wrong with a record, and where.
type DecodeError struct {
	Reason Reason
	// Path leads to the field in question, dotted ("meta.host", "readings.3.x"). Empty means the whole event.
	Path string
	// Detail is the rest of the error's sentence: the value (cut), the bound, and what to do. It repeats nothing else of the
	// record.
	Detail string
	// Part is the index of the element in an array record, and record.WholeRecord for all other errors.
	Part int32
	// Value holds the failing element's bytes if Part is not record.WholeRecord. It is valid until the next Decode.
	Value []byte
}

// Error returns one sentence with the path and the value.
func (e *DecodeError) Error() string {
	if e.Path == "" {
		return fmt.Sprintf("%s: %s", e.Reason, e.Detail)
	}
	return fmt.Sprintf("%s at %s: %s", e.Reason, e.Path, e.Detail)
}
