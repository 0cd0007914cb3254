package claim

import (
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries"
)

// Document is a partition document. Found is false if there is none.
type Document struct {
	Found    bool
	Group    string
	TopicID  [16]byte
	Claim    Token
	Released bool
	Start    int64
	Wait     time.Duration
	// Lease is the lease of the claim. Zero means unknown, as in a claim of a former version.
	Lease time.Duration
	// Waited is how long the claim's generation has been over, as earlier members found out. Zero means unknown.
	Waited time.Duration
	// Owner is the host of the claiming process, for people.
	Owner string
	// HasBuckets means, if there is no document, that the collection has a bucket of this partition.
	HasBuckets bool
	// Watermarks are the watermarks of the partition's rollups, as bytes of the document. The next claim lowers them.
	Watermarks string
}

// Fields of a partition document.
const (
	fieldClaim    = "claim"
	fieldReleased = "released"
	fieldStart    = "start"
	fieldWait     = "waitMs"
	fieldLease    = "lease"
	fieldWaited   = "waited"
	fieldOwner    = "owner"
)

// Decode reads a partition document, except its watermarks. A field that is missing or of another type, as after an edit by hand,
// reads as its zero value. That only makes the next owner wait longer or be refused.
func Decode(d bson.Raw) Document {
	seen := Document{Found: true, TopicID: timeseries.UUIDIn(d, timeseries.FieldTopicID), Claim: timeseries.UUIDIn(d, fieldClaim)}
	seen.Group, _ = d.Lookup("group").StringValueOK()
	seen.Owner, _ = d.Lookup(fieldOwner).StringValueOK()
	seen.Released, _ = d.Lookup(fieldReleased).BooleanOK()
	seen.Start, _ = d.Lookup(fieldStart).AsInt64OK()
	seen.Wait = timeIn(d, fieldWait)
	seen.Lease, seen.Waited = timeOf(d, fieldLease, seen.Claim), timeOf(d, fieldWaited, seen.Claim)
	return seen
}

// Fields returns the fields of a partition document that a claim sets. topicID is the topic's, and owner names the claiming process.
func (c Claim) Fields(topicID [16]byte, owner string) bson.D {
	return bson.D{
		{Key: timeseries.FieldTopicID, Value: timeseries.UUID(topicID)},
		{Key: fieldClaim, Value: timeseries.UUID(c.Token)},
		{Key: fieldReleased, Value: false},
		{Key: fieldStart, Value: c.Start},
		{Key: fieldWait, Value: c.Wait.Milliseconds()},
		{Key: fieldLease, Value: ofClaim(c.Token, c.Lease)},
		{Key: fieldOwner, Value: owner},
	}
}

// IsReleased is the field that says whether the claim of a partition document is released.
func IsReleased(released bool) bson.E { return bson.E{Key: fieldReleased, Value: released} }

// HasWaited is the field that says how long, at least, the generation of a claim has been over.
func HasWaited(of Token, waited time.Duration) bson.E {
	return bson.E{Key: fieldWaited, Value: ofClaim(of, waited)}
}

// ofClaim is a duration that belongs to one claim. It means nothing once the document shows another claim.
func ofClaim(of Token, d time.Duration) bson.D {
	return bson.D{{Key: fieldClaim, Value: timeseries.UUID(of)}, {Key: "ms", Value: d.Milliseconds()}}
}

// timeOf reads what ofClaim wrote. Zero means that it belongs to another claim.
func timeOf(d bson.Raw, field string, of Token) time.Duration {
	if about, ok := d.Lookup(field).DocumentOK(); ok && timeseries.UUIDIn(about, fieldClaim) == of {
		return timeIn(about, "ms")
	}
	return 0
}

func timeIn(d bson.Raw, field string) time.Duration {
	ms, _ := d.Lookup(field).AsInt64OK()
	return time.Duration(max(0, min(ms, mostWaitMs))) * time.Millisecond
}

// mostWaitMs bounds how long a partition document can make the next owner wait: a day.
const mostWaitMs = 24 * 60 * 60 * 1000

// Grace returns how long after its sending a write may still be executed. That is one write timeout in transit, and one as
// maxTimeMS.
func Grace(writeTimeout time.Duration) time.Duration { return 2 * writeTimeout }

// Pending returns how long writes may still be executed that owners have sent before. It is at least the grace of our own writes. An
// owner with a longer write timeout has recorded a longer wait in its claim.
func Pending(grace time.Duration, claims []Document) time.Duration {
	for i := range claims {
		if c := &claims[i]; !c.Released {
			grace = max(grace, c.Wait)
		}
	}
	return grace
}
