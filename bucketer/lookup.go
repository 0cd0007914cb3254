package bucketer

import "go.mongodb.org/mongo-driver/v2/bson"

// Lookup asks the database for buckets of one series that may take a measurement of the given time.
type Lookup struct {
	// Series is the binary key of the series: the meta's type byte and its bytes; empty for no meta.
	Series string
	// Meta is the normalised identity. Type 0 means absent.
	Meta bson.RawValue
	// Time is the measurement's time in milliseconds: wanted is control.min.<time> in (Time - span, Time]. Not used when
	// ID is set.
	Time int64
	// Size is the accounted bytes from which a bucket is full now: wanted is one of less. Zero means any size. Not used when ID
	// is set.
	Size int32
	// ID, when not zero, names the archived bucket wanted.
	ID bson.ObjectID
	// Ahead means that the measurement waits behind another one, and will probably ask for this bucket later. The look-up may be left
	// without an answer.
	Ahead bool
}

// IsSame reports whether two look-ups ask for the same buckets.
func (l *Lookup) IsSame(other *Lookup) bool {
	return l.Series == other.Series && l.ID == other.ID && l.Time == other.Time
}

// Answer is what the database had for a Lookup: candidates that the catalog still checks one by one, and may refuse all.
// Of many the few with the largest control.min.<time> are enough, of the same those with the fewest measurements: the
// catalog takes them in that order.
type Answer struct {
	Lookup     Lookup
	Candidates []Candidate
}

// Candidate is a stored bucket without its columns.
type Candidate struct {
	// Document holds _id, control (with source) and meta of the bucket.
	Document bson.Raw
	// Size is the BSON size of the whole stored document ($bsonSize), 0 where the server cannot tell: then control.size
	// is taken.
	Size int32
}
