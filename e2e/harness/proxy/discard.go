package proxy

import (
	"sync/atomic"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Discard answers the writes of buckets itself, and keeps nothing of them. So it measures a client without the database. It
// forwards all other requests, including look-ups of buckets.
type Discard struct {
	*Proxy
	inserts, updates atomic.Int64
}

// NewDiscard listens for connections to the server at uri. The caller closes it.
func NewDiscard(uri string) (_ *Discard, err error) {
	d := &Discard{}
	d.Proxy, err = NewMessages(uri, d.decide)
	return d, err
}

// Counts returns the number of documents that were inserted and updated. An insert opens a bucket, and an update would add to one.
func (d *Discard) Counts() (inserts, updates int64) { return d.inserts.Load(), d.updates.Load() }

func (d *Discard) decide(m Message) Decision {
	c, kind, ok := ParseBucketWrite(m)
	if !ok {
		return Decision{Forward: m}
	}
	n := int32(len(c.Documents))
	counts := bson.D{{Key: "n", Value: n}}
	if kind == "update" {
		d.updates.Add(int64(n))
		counts = append(counts, bson.E{Key: "nModified", Value: n})
	} else {
		d.inserts.Add(int64(n))
	}
	if c.Unanswered {
		return Decision{}
	}
	return answer(m, append(counts, bson.E{Key: "ok", Value: float64(1)}))
}
