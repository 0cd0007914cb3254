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

// call is one command. It has the writes with these indexes, either inserts or updates.
type call struct {
	kind    bucketer.Kind
	indexes []int
}

// Send sends each write once and returns the result of each, by its index. All writes share one deadline, the write timeout
// from now, which the server is told as well. After the deadline and the time on the network, no part of this attempt can be
// executed. Inserts and updates go in separate commands, several in flight. A command without enough time left is not begun.
// Its writes are NotExecuted, with ErrNoTurn.
//
// If MongoDB refuses a whole command for its content, Send sends each of its writes again, one per command. Either nothing of
// the refused command was executed, or the repetition finds executed writes by _id and count. A write whose own command is
// refused is at fault only if MongoDB accepts a command without buckets.
func (p *Partition) Send(ctx context.Context, writes []*bucketer.Write) []bucketer.Sent {
	if p.standing != holding {
		panic("sink: E7: bucket writes were to be sent without a claim")
	}
	b := &bulks{store: p.store, writes: writes, sent: make([]bucketer.Sent, len(writes)), turns: &turns{clock: p.store.Clock, until: p.store.Clock() + p.store.WriteTimeout}}
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

// blame finds out whether whole commands were refused for their documents, or for a part of every command, such as the write
// concern. It tries a command without buckets. If that fails too, no document is at fault, and the writes are unknown as in any
// outage. The next fence shows whether the claim is still ours.
func (p *Partition) blame(ctx context.Context, sent []bucketer.Sent) {
	refused := func(s bucketer.Sent) bool { return s.Result == bucketer.Refused && s.Err != nil }
	if !slices.ContainsFunc(sent, refused) {
		return
	}
	err := p.conditional(ctx, "testing a write that contains no buckets", p.token, bson.D{{Key: "at", Value: p.stamp()}})
	if err == nil {
		return
	}
	for i := range sent {
		if refused(sent[i]) {
			sent[i] = bucketer.Sent{Result: bucketer.Unknown, Code: sent[i].Code, Message: sent[i].Message, Err: err}
		}
	}
}

// split makes bulk calls of writes, bounded in bytes and number. Inserts and updates go apart, because the driver hides the
// results of one kind when the other fails.
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

// send makes one call and stores the results of its writes into sent. It owns the elements with its indexes there.
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

// turns decide which calls of one Send may still begin. A call that is sent too late is cut off on its way, and its writes are
// unknown. So a call begins only if there is as much time left as the slowest call before it took. The first call always
// begins.
type turns struct {
	clock   func() time.Duration
	until   time.Duration
	slowest atomic.Int64 // nanoseconds
}

// begin reports whether a call may begin now, and returns the present time. Only the clock counts for the deadline, but a
// cancelled context also forbids the call.
func (t *turns) begin(ctx context.Context) (now time.Duration, ok bool) {
	now = t.clock()
	left := t.until - now
	return now, left > 0 && left >= time.Duration(t.slowest.Load()) && !errors.Is(ctx.Err(), context.Canceled)
}

// end notes that a call has ended.
func (t *turns) end(begun time.Duration) {
	took := int64(t.clock() - begun)
	for {
		slowest := t.slowest.Load()
		if took <= slowest || t.slowest.CompareAndSwap(slowest, took) {
			return
		}
	}
}
