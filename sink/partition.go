package sink

import (
	"context"
	"encoding/hex"
	"errors"
	"strconv"
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
	// ordering orders reads after claims and fences.
	ordering
	standing standing
	token    [16]byte // of the claim that standing describes
	// window is how many offsets of stored positions fitted into its memory when they last did not all fit. Zero means that they
	// always did.
	window int64
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
		store: s, source: source, group: group, owner: owner, ordering: ordering{begin: s.Ports.Session},
		id:    claim.DocumentID(clusterID, source.Topic, source.Partition),
		topic: clusterID + "/" + source.Topic,
	}
}

// Read returns the partition document, as a majority has it. If it shows a claim of ours whose answer was lost, the claim is
// held from now on. If it does not show our held claim, the claim is not held any more.
func (p *Partition) Read(ctx context.Context) (claim.Document, error) {
	const operation = "reading the claim"
	var seen claim.Document
	err := p.find(ctx, p.store.Ports.Partitions, mongodb.Query{Filter: mongodb.WithID(p.id), Limit: 1}, func(d bson.Raw) error {
		seen = parseSeen(d)
		return nil
	})
	if err != nil {
		return claim.Document{}, mongodb.Failure(operation, err)
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
	err = p.find(ctx, p.store.Ports.Buckets, mongodb.Query{
		Filter:     mongodb.Document(timeseries.OfSource(p.source)),
		Projection: mongodb.Document(bson.D{{Key: "_id", Value: 1}}),
		Limit:      1,
	}, func(bson.Raw) error {
		seen.HasBuckets = true
		return nil
	})
	if err != nil {
		return claim.Document{}, mongodb.Failure(operation, err)
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

// Claim replaces exactly the seen claim by a new one. False means that the document no longer showed it, or that another
// process was quicker. After an error it is unknown whether the claim was executed. Read finds out by the
// token, and then the claim is ours.
func (p *Partition) Claim(ctx context.Context, seen claim.Document, ours claim.Claim) (bool, error) {
	fields := append(ours.Fields(p.source.TopicID, p.owner), bson.E{Key: "at", Value: p.stamp()})
	fields = append(fields, p.lowered(seen, ours.Start)...)
	p.standing, p.token = claiming, ours.Token
	won, err := mongodb.Changed(p.leased(ctx, func(ctx context.Context) (mongodb.Reply, error) {
		if seen.Found {
			return p.store.Ports.Partitions.Update(ctx, []mongodb.Update{replacing(p.id, p.group, seen.Claim, fields)})
		}
		key := bson.D{{Key: "_id", Value: p.id}, {Key: "group", Value: p.group}}
		return p.store.Ports.Partitions.Insert(ctx, []bson.Raw{mongodb.Document(append(key, fields...))})
	}))
	switch {
	case won:
		p.standing = holding
	case err == nil || errors.Is(err, claim.ErrLapsed):
		p.standing = unclaimed
	}
	return won, mongodb.Failure("claiming the partition", err)
}

// NoteWaited writes down for how long, at least, the generation of another owner's claim has been over. The document must still
// show that claim. Otherwise the error is ErrOtherOwner. A late execution does no harm, because the note then says less than is
// true.
func (p *Partition) NoteWaited(ctx context.Context, theirs claim.Token, waited time.Duration) error {
	return p.conditional(ctx, "recording how long a claim waited", theirs, bson.D{claim.HasWaited(theirs, waited)})
}

// NoteLost writes down what the log lost before it was read, if the document still shows our claim. Otherwise the error is
// ErrOtherOwner. The note is kept by topic id and first offset, so the same loss may be noted again, also with a larger end.
func (p *Partition) NoteLost(ctx context.Context, lost claim.Lost) error {
	if p.standing != holding {
		return claim.ErrOtherOwner
	}
	path := fieldLost + "." + hex.EncodeToString(p.source.TopicID[:]) + "." + strconv.FormatInt(lost.From, 10)
	return p.conditional(ctx, "recording lost records", p.token, bson.D{{Key: path, Value: lost.To}})
}

// fieldLost holds the offsets that retention deleted before they were read, by topic id in hexadecimal digits and by first
// offset.
const fieldLost = "lost"

// Release marks our claim as released, so that the next owner need not wait. From the call on nothing is sent under this claim,
// whatever the answer (E7). Without an answer Release may be called again. ErrOtherOwner means that the claim was no longer
// ours.
func (p *Partition) Release(ctx context.Context) error {
	if p.standing != holding && p.standing != releasing {
		return claim.ErrOtherOwner
	}
	p.standing = releasing
	err := p.conditional(ctx, "releasing the claim", p.token, bson.D{claim.IsReleased(true), {Key: "at", Value: p.stamp()}})
	if err == nil || errors.Is(err, claim.ErrOtherOwner) {
		p.standing = unclaimed
	}
	return err
}

// fence proves that the claim is still ours, and orders later reads after every write that was executed before.
func (p *Partition) fence(ctx context.Context) error {
	if p.standing != holding {
		return claim.ErrOtherOwner
	}
	err := p.conditional(ctx, "fencing the partition", p.token, bson.D{{Key: "at", Value: p.stamp()}})
	if errors.Is(err, claim.ErrOtherOwner) {
		p.standing = unclaimed
	}
	if err == nil {
		err = p.fenceShards(ctx)
	}
	return err
}

// fenceShards fences the shards that do not hold the partition document. The cluster time of a write on one shard does not
// order a read on another shard whose clock is ahead. Without this fence the read might miss a write that was executed there
// before.
func (p *Partition) fenceShards(ctx context.Context) error {
	if p.store.Ports.FenceShards == nil {
		return nil
	}
	_, err := p.write(ctx, p.store.WriteTimeout, func(ctx context.Context) (mongodb.Reply, error) {
		return mongodb.Reply{}, p.store.Ports.FenceShards(ctx)
	})
	return mongodb.Failure("fencing all shards", err)
}

// conditional sets fields of the partition document if it shows this claim of our group. Otherwise the error is ErrOtherOwner.
func (p *Partition) conditional(ctx context.Context, operation string, shown claim.Token, fields bson.D) error {
	done, err := mongodb.Changed(p.leased(ctx, func(ctx context.Context) (mongodb.Reply, error) {
		return p.store.Ports.Partitions.Update(ctx, []mongodb.Update{replacing(p.id, p.group, shown, fields)})
	}))
	if err == nil && !done {
		return claim.ErrOtherOwner
	}
	return mongodb.Failure(operation, err)
}

// replacing is an update of a partition document, on the condition that the document shows the given claim and group.
func replacing(id, group string, shown claim.Token, fields bson.D) mongodb.Update {
	return mongodb.Update{
		Filter: mongodb.Document(bson.D{{Key: "_id", Value: id}, {Key: "group", Value: group}, {Key: "claim", Value: timeseries.UUID(shown)}}),
		Update: mongodb.Set(fields),
	}
}

// leased sends one write in the session, if the lease holds (E7), within the write timeout.
func (p *Partition) leased(ctx context.Context, send func(context.Context) (mongodb.Reply, error)) (mongodb.Reply, error) {
	return p.write(ctx, p.store.WriteTimeout, func(ctx context.Context) (mongodb.Reply, error) {
		if !p.store.held() {
			return mongodb.Reply{}, claim.ErrLapsed
		}
		return send(ctx)
	})
}

// errTopicLags means that the topic's document exists but a majority does not have it yet.
var errTopicLags = errors.New("another consumer has just recorded the topic, and a majority of the replica set does not have the document yet")

// FirstPartitions notes, when it first sees the topic, how many partitions the topic has. It returns the noted number.
// Partitions below it existed when the group began, and the others were added later. Zero means that the collection knows the
// topic only under another id. The topic was then deleted and created again.
//
// The document lies beside the options, where writes need no lease. Until the start of a first partition is known, which takes
// this number, nothing can be committed, and so nothing renews a lease. The document is only ever inserted, so a late insert
// does no harm.
func (p *Partition) FirstPartitions(ctx context.Context, now int32) (int32, error) {
	const operation = "recording the topic"
	known, err := p.readTopic(ctx)
	if err != nil || known != nil {
		return p.partitionsIn(known), mongodb.Failure(operation, err)
	}
	writing, cancel := context.WithTimeout(ctx, p.store.WriteTimeout)
	defer cancel()
	noted, err := mongodb.Changed(p.store.Ports.Options.Insert(writing, []bson.Raw{mongodb.Document(bson.D{
		{Key: "_id", Value: p.topic}, {Key: "topicId", Value: timeseries.UUID(p.source.TopicID)}, {Key: "partitions", Value: now},
	})}))
	switch {
	case err != nil:
		return 0, mongodb.Failure(operation, err)
	case noted:
		return now, nil
	}
	if known, err = p.readTopic(writing); err == nil && known == nil {
		err = errTopicLags
	}
	return p.partitionsIn(known), mongodb.Failure(operation, err)
}

// readTopic reads the topic's document. Nil means that there is none.
func (p *Partition) readTopic(ctx context.Context) (bson.Raw, error) {
	return mongodb.First(ctx, p.store.Ports.Options, mongodb.Query{Filter: mongodb.WithID(p.topic)})
}

// partitionsIn returns the number in the topic's document. Zero means that the document is of another topic id.
func (p *Partition) partitionsIn(d bson.Raw) int32 {
	n, ok := d.Lookup("partitions").AsInt64OK()
	if !ok || timeseries.UUIDIn(d, "topicId") != p.source.TopicID {
		return 0
	}
	return int32(n)
}
