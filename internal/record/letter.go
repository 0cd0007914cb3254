package record

// WholeRecord is the part of a letter that is a record as a whole, not one element of an array record.
const WholeRecord int32 = -1

// Letter is a record, or one element of an array record, that cannot be stored.
type Letter struct {
	// Place, TopicID and Part say what it is of, and identify it: a letter that is found twice was produced twice. TopicID is
	// zero where it is not known.
	Place
	TopicID [16]byte
	Part    int32 // index of the element, or WholeRecord
	// Timestamp is the record's, in milliseconds since 1970.
	Timestamp int64
	// Key, Value and Headers are the record's; Value is the element's bytes when Part is not WholeRecord. Headers are as Kafka
	// encodes them. Letters of one record share its key and headers.
	Key, Value, Headers []byte
	// Reason is one of measurement.Reason's closed set, Message one sentence.
	Reason, Message string
	// RefusedByDatabase means that MongoDB refused the measurement; else the record could not be decoded.
	RefusedByDatabase bool
	// Cut, when not empty, says what of the record the letter lacks. Such a letter cannot be driven back.
	Cut string
}
