package sink

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/claim"
	"waterwheel/internal/collection"
	"waterwheel/internal/mongodb"
)

// Contents are the claims and the stored documents of a time series, for commands that work beside its consumers.
type Contents struct {
	name    string // of the time series
	ports   collection.Ports
	timeout time.Duration // of a write
}

// ContentsOf returns the contents of a time series.
func ContentsOf(db *mongodb.Database, name string) Contents {
	return Contents{name: name, ports: collection.Of(db, name).Ports(), timeout: db.WriteTimeout()}
}

// PartitionDocument is a partition document with the owner's claim, for commands that work beside the consumers.
type PartitionDocument struct {
	// ID is the document's _id. ClusterID, Topic and Partition are read from it. They are empty and -1 if it has another form.
	ID        string
	ClusterID string
	Topic     string
	Partition int32
	// At is when the owner last wrote the document. It is for people only.
	At time.Time
	claim.Document
}

// Partitions returns the partition documents of the time series, in the order of their ids.
func (c Contents) Partitions(ctx context.Context) ([]PartitionDocument, error) {
	var found []PartitionDocument
	err := c.ports.Partitions.Find(ctx, mongodb.Query{Filter: mongodb.Document(bson.D{})}, func(raw bson.Raw) error {
		found = append(found, parsePartitionDocument(raw))
		return nil
	})
	slices.SortFunc(found, func(a, b PartitionDocument) int { // partition 10 comes after partition 9
		return cmp.Or(strings.Compare(a.ClusterID, b.ClusterID), strings.Compare(a.Topic, b.Topic),
			cmp.Compare(a.Partition, b.Partition), strings.Compare(a.ID, b.ID))
	})
	return found, mongodb.Failure("reading the claims of "+c.name, err)
}

// TakeOver gives a partition to another group, if its document still shows the group and the claim of seen. The claim itself
// stays unreleased. Its writes may still be under way, so the next owner waits for them. False means that the document has
// changed meanwhile, and nothing was done. After an error it is unknown what happened, and the same call may be repeated.
//
// The caller must know that the former group has no members.
func (c Contents) TakeOver(ctx context.Context, seen PartitionDocument, group string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	done, err := mongodb.Changed(c.ports.Partitions.Update(ctx, []mongodb.Update{
		replacing(seen.ID, seen.Group, seen.Claim, bson.D{{Key: "group", Value: group}, claim.IsReleased(false)}),
	}))
	return done, mongodb.Failure("giving the partition "+seen.ID+" to another group", err)
}

func parsePartitionDocument(raw bson.Raw) PartitionDocument {
	d := PartitionDocument{Document: parseSeen(raw), Partition: -1}
	d.ID, _ = raw.Lookup("_id").StringValueOK()
	if at, ok := raw.Lookup("at").TimeOK(); ok {
		d.At = at
	}
	rest, number, _ := cutLast(d.ID)
	if n, err := strconv.ParseInt(number, 10, 32); err == nil && n >= 0 {
		if cluster, topic, ok := cutLast(rest); ok {
			d.ClusterID, d.Topic, d.Partition = cluster, topic, int32(n)
		}
	}
	return d
}

// cutLast cuts an id at its last slash. Topics and partition numbers have no slash.
func cutLast(id string) (before, after string, found bool) {
	i := strings.LastIndexByte(id, '/')
	if i < 0 {
		return "", id, false
	}
	return id[:i], id[i+1:], true
}
