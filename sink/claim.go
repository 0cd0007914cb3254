package sink

import (
	"context"
	"errors"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/claim"
)

// codeDuplicateKey is MongoDB's answer to an insert whose _id is taken.
const codeDuplicateKey = 11000

// Claim replaces exactly the claim seen by a new one. False: it was no longer there, or another was quicker. After an
// error it is unknown whether the claim was executed; Read tells by the token, and then it is ours.
func (p *Partition) Claim(ctx context.Context, seen claim.Document, ours claim.Claim) (bool, error) {
	const doing = "claiming the partition"
	fields := bson.D{
		{Key: "topicId", Value: uuid(p.source.TopicID)},
		{Key: "claim", Value: uuid(ours.Token)},
		{Key: "released", Value: false},
		{Key: "start", Value: ours.Start},
		{Key: "waitMs", Value: ours.Wait.Milliseconds()},
		{Key: "owner", Value: p.owner},
		{Key: "at", Value: p.stamp()},
	}
	p.standing, p.token = claiming, ours.Token
	reply, err := p.write(ctx, func(ctx context.Context, c Collection) (Reply, error) {
		if seen.Found {
			return c.Update(ctx, []Update{p.replacing(seen.Claim, fields)})
		}
		key := bson.D{{Key: "_id", Value: p.id}, {Key: "group", Value: p.group}}
		return c.Insert(ctx, []bson.Raw{document(append(key, fields...))})
	})
	won, err := changed(doing, reply, err)
	switch {
	case won:
		p.standing = holding
	case err == nil || errors.Is(err, claim.ErrLapsed):
		p.standing = unclaimed
	}
	return won, err
}

// NoteWaited writes down that the generation of somebody else's claim has been over for at least a time, if the document
// still shows that claim; else the error is ErrOtherOwner. Executed late, it says less than is true.
func (p *Partition) NoteWaited(ctx context.Context, theirs claim.Token, waited time.Duration) error {
	note := bson.D{{Key: "claim", Value: uuid(theirs)}, {Key: "ms", Value: waited.Milliseconds()}}
	reply, err := p.write(ctx, func(ctx context.Context, c Collection) (Reply, error) {
		return c.Update(ctx, []Update{p.replacing(theirs, bson.D{{Key: "waited", Value: note}})})
	})
	shown, err := changed("noting how long a claim was waited for", reply, err)
	if err == nil && !shown {
		return claim.ErrOtherOwner
	}
	return err
}

// Release marks our claim as released: the next owner need not wait. From the call on nothing is sent under this claim,
// whatever the answer (E7); without one, Release may be called again. ErrOtherOwner: the claim was not ours any more.
func (p *Partition) Release(ctx context.Context) error {
	if p.standing != holding && p.standing != releasing {
		return claim.ErrOtherOwner
	}
	p.standing = releasing
	err := p.conditional(ctx, "releasing the claim", bson.D{{Key: "released", Value: true}, {Key: "at", Value: p.stamp()}})
	if err == nil || errors.Is(err, claim.ErrOtherOwner) {
		p.standing = unclaimed
	}
	return err
}

// fence proves that the claim is still ours, and orders what is read next after every write executed before.
func (p *Partition) fence(ctx context.Context) error {
	if p.standing != holding {
		return claim.ErrOtherOwner
	}
	err := p.conditional(ctx, "fencing the partition", bson.D{{Key: "at", Value: p.stamp()}})
	if errors.Is(err, claim.ErrOtherOwner) {
		p.standing = unclaimed
	}
	return err
}

// conditional sets fields of the partition document if it shows our claim; else the error is ErrOtherOwner.
func (p *Partition) conditional(ctx context.Context, doing string, fields bson.D) error {
	reply, err := p.write(ctx, func(ctx context.Context, c Collection) (Reply, error) {
		return c.Update(ctx, []Update{p.replacing(p.token, fields)})
	})
	ours, err := changed(doing, reply, err)
	if err == nil && !ours {
		return claim.ErrOtherOwner
	}
	return err
}

// replacing is an update of the partition document on the condition that it shows a certain claim of our group.
func (p *Partition) replacing(shown claim.Token, fields bson.D) Update {
	return Update{
		Filter: document(bson.D{{Key: "_id", Value: p.id}, {Key: "group", Value: p.group}, {Key: "claim", Value: uuid(shown)}}),
		Update: document(bson.D{{Key: "$set", Value: fields}}),
	}
}

// write sends one write of the partition document in the session, if the lease holds, within the write timeout.
func (p *Partition) write(ctx context.Context, send func(context.Context, Collection) (Reply, error)) (Reply, error) {
	ctx, cancel := context.WithTimeout(ctx, p.store.WriteTimeout)
	defer cancel()
	ctx, err := p.ordered(ctx)
	if err != nil {
		return Reply{}, &NotSentError{err}
	}
	if !p.store.held() {
		return Reply{}, claim.ErrLapsed
	}
	return send(ctx, p.store.ports.Partitions)
}

// changed tells whether a write of one document was executed and is durable.
func changed(doing string, reply Reply, err error) (bool, error) {
	switch {
	case err != nil:
		return false, failure(doing, err)
	case slices.ContainsFunc(reply.Errors, func(e WriteError) bool { return e.Code == codeDuplicateKey }):
		return false, nil
	case len(reply.Errors) > 0:
		e := reply.Errors[0]
		return false, failure(doing, &CommandError{Code: e.Code, Message: e.Message})
	case reply.Unconfirmed != nil:
		return false, failure(doing, reply.Unconfirmed)
	}
	return reply.N == 1, nil
}
