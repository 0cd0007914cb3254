package sink

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"golang.org/x/sync/errgroup"

	"waterwheel/bucketer"
	"waterwheel/internal/claim"
	"waterwheel/internal/mongodb"
)

// call is one command: the writes of these indexes, all inserts or all updates.
type call struct {
	kind    bucketer.Kind
	indexes []int
}

// Send sends each write once and tells what is known of each, by its index. All share one deadline, the write timeout
// from now, which the server is told as well: after it and the way there nothing of this attempt can be executed. Inserts
// and updates go in separate commands, several in flight. One for which there is not enough time left is not begun: its
// writes are NotExecuted, with ErrNoTurn.
//
// A command that MongoDB refuses as a whole for its content is sent again, one write a command: nothing of it was
// executed, or what was is found by its _id and count. A write whose own command is refused is to blame only if a command
// of ours without it is not refused.
func (p *Partition) Send(ctx context.Context, writes []*bucketer.Write) []bucketer.Sent {
	if p.standing != holding {
		panic("sink: E7: bucket writes were to be sent without a claim")
	}
	b := &bulks{store: p.store, writes: writes, sent: make([]bucketer.Sent, len(writes)), turns: newTurns(p.store)}
	ctx, cancel := context.WithTimeout(ctx, p.store.WriteTimeout)
	defer cancel()

	calls := split(writes, p.store.CallWrites)
	if p.store.Parallel == 1 || len(calls) == 1 {
		for _, c := range calls {
			b.send(ctx, c)
		}
	} else {
		var g errgroup.Group
		g.SetLimit(p.store.Parallel)
		for _, c := range calls {
			g.Go(func() error {
				b.send(ctx, c)
				return nil
			})
		}
		_ = g.Wait() // the outcomes are in b.sent
	}
	p.blame(ctx, b.sent)
	p.store.Metrics.attempts(p.source, writes, b.sent)
	return b.sent
}

// blame finds out whether commands were refused for their documents, or for what every command has, such as the write
// concern: by one that has no bucket in it. If that fails too nobody's data is bad, and the writes are unknown as in any
// outage; what has become of our claim, the next fence tells.
func (p *Partition) blame(ctx context.Context, sent []bucketer.Sent) {
	refused := func(s bucketer.Sent) bool { return s.Result == bucketer.Refused && s.Err != nil }
	if !slices.ContainsFunc(sent, refused) {
		return
	}
	err := p.conditional(ctx, "trying a write without buckets", p.token, bson.D{{Key: "at", Value: p.stamp()}})
	if err == nil {
		return
	}
	for i := range sent {
		if refused(sent[i]) {
			sent[i] = bucketer.Sent{Result: bucketer.Unknown, Code: sent[i].Code, Message: sent[i].Message, Err: err}
		}
	}
}

// split makes bulk calls of writes: inserts and updates apart, because the driver hides the results of one when the other
// fails; bounded in bytes and number.
func split(writes []*bucketer.Write, most int) []call {
	var calls []call
	for _, kind := range []bucketer.Kind{bucketer.Insert, bucketer.Update} {
		var open call
		bytes := 0
		for i, w := range writes {
			if w.Kind != kind {
				continue
			}
			size := len(w.Filter) + len(w.Document) + mongodb.WriteOverhead
			if len(open.indexes) == most || len(open.indexes) > 0 && bytes+size > mongodb.MaxCallBytes {
				calls = append(calls, open)
				open, bytes = call{}, 0
			}
			open.kind, open.indexes = kind, append(open.indexes, i)
			bytes += size
		}
		if len(open.indexes) > 0 {
			calls = append(calls, open)
		}
	}
	return calls
}

// bulks are the calls of one Send.
type bulks struct {
	store  *Store
	writes []*bucketer.Write
	sent   []bucketer.Sent
	turns  *turns
}

// send makes one call and puts what is known of its writes into sent, of which it owns the elements of its indexes.
func (b *bulks) send(ctx context.Context, c call) {
	reply, err := b.command(ctx, c)
	if err != nil && len(c.indexes) > 1 && refusedWhole(err) {
		for _, i := range c.indexes {
			b.send(ctx, call{kind: c.kind, indexes: []int{i}})
		}
		return
	}
	for n, result := range classify(len(c.indexes), reply, err) {
		b.sent[c.indexes[n]] = withoutShardKey(b.writes[c.indexes[n]], result)
	}
}

// command sends one insert or update command, if the lease holds (E7) and there is time for it.
func (b *bulks) command(ctx context.Context, c call) (reply mongodb.Reply, err error) {
	if !b.store.held() {
		return mongodb.Reply{}, &mongodb.NotSentError{Err: claim.ErrLapsed}
	}
	begun, ok := b.turns.begin(ctx)
	if !ok {
		return mongodb.Reply{}, &mongodb.NotSentError{Err: claim.ErrNoTurn}
	}
	defer b.turns.end(begun)
	defer b.store.Metrics.command(kindName(c.kind), time.Now())
	defer func() { err = mongodb.Within(b.store.WriteTimeout, err) }()
	if c.kind == bucketer.Insert {
		documents := make([]bson.Raw, len(c.indexes))
		for n, i := range c.indexes {
			documents[n] = b.writes[i].Document
		}
		return b.store.Ports.Buckets.Insert(ctx, documents)
	}
	updates := make([]mongodb.Update, len(c.indexes))
	for n, i := range c.indexes {
		updates[n] = mongodb.Update{Filter: b.writes[i].Filter, Update: b.writes[i].Document}
	}
	return b.store.Ports.Buckets.Update(ctx, updates)
}

// turns say which calls of one Send may still begin. A call that is sent too late is cut off on its way, and unknown: so a call
// begins only if it has as much time as the slowest of those before it took. The first one always has.
type turns struct {
	clock   func() time.Duration
	until   time.Duration
	slowest atomic.Int64 // nanoseconds
}

func newTurns(s *Store) *turns {
	return &turns{clock: s.Clock, until: s.Clock() + s.WriteTimeout}
}

// begin reports whether a call may begin now, and when that is. The time is told by the clock alone; the context may be
// cancelled.
func (t *turns) begin(ctx context.Context) (now time.Duration, ok bool) {
	now = t.clock()
	left := t.until - now
	return now, left > 0 && left >= time.Duration(t.slowest.Load()) && !errors.Is(ctx.Err(), context.Canceled)
}

// end notes that a call is over.
func (t *turns) end(begun time.Duration) {
	took := int64(t.clock() - begun)
	for {
		slowest := t.slowest.Load()
		if took <= slowest || t.slowest.CompareAndSwap(slowest, took) {
			return
		}
	}
}
