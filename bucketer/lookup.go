package bucketer

import "go.mongodb.org/mongo-driver/v2/bson"

// Lookup asks the database for buckets of one series that may take a measurement of a given time.
type Lookup struct {
	// Series is the binary key of the series: the meta's type byte and its bytes. It is empty without a meta.
	Series string
	// Meta is the normalised meta. Type 0 means that there is none.
	Meta bson.RawValue
	// Time is the measurement's time in milliseconds. A bucket must have control.min.<time> in (Time - span, Time]. Time is unused
	// when ID is set.
	Time int64
	// Size is the number of accounted bytes from which a bucket is full. A bucket must have fewer. Zero means any size. Size is
	// unused when ID is set.
	Size int32
	// ID, when not zero, is the archived bucket to look for.
	ID bson.ObjectID
	// Ahead means that the measurement waits behind another one and will probably ask for this bucket later. The look-up may stay
	// unanswered.
	Ahead bool
}

// IsSame reports whether two look-ups ask for the same buckets.
func (l *Lookup) IsSame(other *Lookup) bool {
	return l.Series == other.Series && l.ID == other.ID && l.Time == other.Time
}

// Answer is the database's answer to a Lookup. The catalog still checks each candidate and may refuse all. Of many candidates,
// those with the largest control.min.<time> are enough, and among equal ones those with the fewest measurements. The catalog
// takes them in that order.
type Answer struct {
	Lookup     Lookup
	Candidates []Candidate
}

// Candidate is a stored bucket without its columns.
type Candidate struct {
	// Document holds _id, control (with source) and meta of the bucket.
	Document bson.Raw
	// Size is the BSON size of the whole stored document ($bsonSize). Zero means that the server cannot tell; then control.size
	// counts.
	Size int32
}
