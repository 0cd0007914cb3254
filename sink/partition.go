package sink

import (
	"context"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/claim"
	"waterwheel/internal/mongodb"
	"waterwheel/internal/timeseries"
)

// Partition is one source partition's view of a time series: its claim and its buckets. Calls must not overlap, except Find.
// Each method is one attempt.
type Partition struct {
	store  *Store
	source timeseries.Source
	id     string // of the partition document
	topic  string // _id of the topic's document
	group  string
	owner  string
	// session orders reads after claims and fences. It is nil until the first use, and if the server has no sessions.
	session  mongodb.Session
	standing standing
	token    [16]byte // of the claim that standing describes
	// window is how many offsets of D fitted into its memory when they last did not all fit. Zero means that they always did.
	window int64
	// stamped is the last time written into the field at.
	stamped time.Time
}

// standing is what this process knows of its latest claim.
type standing uint8

const (
	unclaimed standing = iota // there is no claim, or it is gone
	claiming                  // the claim was sent, and it is unknown whether it was executed
	holding                   // the claim was won, by its answer or as seen in the partition document
	releasing                 // the release was sent, so nothing more may be written under the claim (E7)
)

// Partition returns a handle on a partition that consumer group group of the Kafka cluster clusterID reads. owner is the name
// of this process for people.
func (s *Store) Partition(source timeseries.Source, clusterID, group, owner string) *Partition {
	s.Metrics.begin(source)
	return &Partition{
		store: s, source: source, group: group, owner: owner,
		id:    claim.DocumentID(clusterID, source.Topic, source.Partition),
		topic: clusterID + "/" + source.Topic,
	}
}

// Read returns the partition document, as a majority has it. If it shows a claim of ours whose answer was lost, the claim is
// held from now on. If it does not show our held claim, the claim is not held any more.
func (p *Partition) Read(ctx context.Context) (claim.Document, error) {
	const doing = "reading the claim"
	var seen claim.Document
	query := mongodb.Query{Filter: mongodb.Document(bson.D{{Key: "_id", Value: p.id}}), Limit: 1}
	err := p.find(ctx, p.store.Ports.Partitions, query, func(d bson.Raw) error {
		seen = parseSeen(d)
		return nil
	})
	if err != nil {
		return claim.Document{}, mongodb.Failure(doing, err)
	}
	shown := seen.Found && seen.Claim == p.token
	switch {
	case p.standing == claiming && shown:
		p.standing = holding
	case p.standing == holding && !shown:
		p.standing = unclaimed
	}
	if seen.Found {
		return seen, nil
	}
	query = mongodb.Query{
		Filter:     mongodb.Document(timeseries.OfSource(p.source)),
		Projection: mongodb.Document(bson.D{{Key: "_id", Value: 1}}),
		Limit:      1,
	}
	err = p.find(ctx, p.store.Ports.Buckets, query, func(bson.Raw) error {
		seen.HasBuckets = true
		return nil
	})
	if err != nil {
		return claim.Document{}, mongodb.Failure(doing, err)
	}
	return seen, nil
}

// parseSeen reads a partition document.
func parseSeen(d bson.Raw) claim.Document {
	seen := claim.Decode(d)
	seen.Watermarks = watermarksIn(d)
	return seen
}

// find reads in the partition's session.
func (p *Partition) find(ctx context.Context, c mongodb.Collection, q mongodb.Query, each func(bson.Raw) error) error {
	ctx, err := p.ordered(ctx)
	if err != nil {
		return err
	}
	defer p.store.Metrics.command("find", time.Now())
	return c.Find(ctx, q, each)
}

// ordered returns a context whose reads see earlier writes made with it.
func (p *Partition) ordered(ctx context.Context) (context.Context, error) {
	if p.store.Ports.Session == nil {
		return ctx, nil
	}
	if p.session == nil {
		session, err := p.store.Ports.Session()
		if err != nil {
			return nil, fmt.Errorf("starting a session: %w", err)
		}
		p.session = session
	}
	return p.session.Context(ctx), nil
}

// stamp returns the present time for the field at. It is later than the last one, so a fence always changes its document.
func (p *Partition) stamp() bson.DateTime {
	now := time.Now().Round(0) // the wall clock, which may have been set back
	if least := p.stamped.Add(time.Millisecond); now.Before(least) {
		now = least
	}
	p.stamped = now
	return bson.NewDateTimeFromTime(now)
}

// Close ends the session. The claim stays in the database.
func (p *Partition) Close() {
	if p.session != nil {
		p.session.End()
		p.session = nil
	}
}

// textIn returns a binary field as a string. A field of another type reads as empty.
func textIn(d bson.Raw, key string) string {
	_, data, _ := d.Lookup(key).BinaryOK()
	return string(data)
}
