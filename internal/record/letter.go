package record

// WholeRecord is the Part of a letter that stands for a whole record, and not for one element of an array record.
const WholeRecord int32 = -1

// Letter is a record, or one element of an array record, that cannot be stored.
type Letter struct {
	// Place, TopicID and Part identify the source of the letter. If two letters are equal in them, the letter was produced twice.
	// TopicID is zero if it is unknown.
	Place
	TopicID [16]byte
	Part    int32 // index of the element, or WholeRecord
	// Timestamp is the record's timestamp, in milliseconds since 1970.
	Timestamp int64
	// Key, Value and Headers are those of the record. If Part is not WholeRecord, Value has only the bytes of the element.
	// Headers are as Kafka encodes them. Letters of one record share its key and headers.
	Key, Value, Headers []byte
	// Reason is one of the values of measurement.Reason. Message is one sentence.
	Reason, Message string
	// RefusedByDatabase means that MongoDB rejected the measurement. Otherwise the record could not be decoded.
	RefusedByDatabase bool
	// Cut says what part of the record is missing in the letter. Empty means nothing. A letter with a Cut cannot be driven back.
	Cut string
}
