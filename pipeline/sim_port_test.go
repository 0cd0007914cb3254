package pipeline_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/claim"
	"waterwheel/internal/mongodb"
	"waterwheel/internal/timeseries"
	"waterwheel/pipeline"
)

var (
	errNoAnswer  = errors.New("no answer came")
	errNoPrimary = &mongodb.CommandError{Code: 10107, Message: "not primary"}
)

// These are error codes of MongoDB.
const (
	codeBadValue     = 2
	codeDuplicateKey = 11000
)

// port is a collection of the model, as the sink uses it.
type port struct {
	w   *world
	of  *docs
	ids []string // ids of the buckets in a command, for checks of what was sent
}

// session orders reads after the writes that were acknowledged in it. If buckets lie on another shard, a write on one shard
// orders no read on the other, because the clocks of the shards may differ.
type session struct{ after, buckets int64 }

type sessionKey struct{}

// Context implements mongodb.Session.
func (s *session) Context(parent context.Context) context.Context {
	return context.WithValue(parent, sessionKey{}, s)
}

// End implements mongodb.Session.
func (s *session) End() {}

// learn records that the session has seen the shard of a collection up to seq, by an acknowledgement or a read.
func (c port) learn(s *session, seq int64) {
	if s == nil {
		return
	}
	apart := c.w.traits.sharded
	if c.of == c.w.mongo.buckets || !apart {
		s.buckets = max(s.buckets, seq)
	}
	if c.of != c.w.mongo.buckets || !apart {
		s.after = max(s.after, seq)
	}
}

// known returns the number of the last write that a session has seen on the shard of a collection.
func (c port) known(s *session) int64 {
	if c.of == c.w.mongo.buckets {
		return s.buckets
	}
	return s.after
}

// fence is a write that every shard acknowledges and that changes nothing.
func (c port) fence(ctx context.Context) error {
	c.w.note("(met) fence of all shards")
	reply, err := c.write(ctx, 0, nil, nil)
	if err == nil {
		err = reply.Unconfirmed
	}
	return err
}

// Insert implements mongodb.Collection.
func (c port) Insert(ctx context.Context, documents []bson.Raw) (mongodb.Reply, error) {
	by := c.w.checks.sending(c.w, taskOf(ctx), c.of, nil)
	documents = slices.Clone(documents) // the command may be executed later, when the caller has reused their memory
	for i := range documents {
		documents[i] = slices.Clone(documents[i])
	}
	refused := make([]bool, len(documents)) // A refused document stays refused, no matter when the command is executed.
	for i := range documents {
		refused[i] = c.refuses(documents[i])
	}
	c.ids = idsOf(documents, func(d bson.Raw) bson.Raw { return d })
	return c.write(ctx, len(documents), func(i int) (int, *mongodb.WriteError) {
		id := string(documents[i].Lookup("_id").Value)
		if refused[i] {
			return 0, &mongodb.WriteError{Index: i, Code: codeBadValue, Message: "poison"}
		}
		if have := c.of.now(id); have != nil {
			if c.onAnotherShard(have, documents[i]) {
				c.w.fail("stored once", "the insert of %x is executed although another shard has a bucket with this _id", id)
			}
			return 0, &mongodb.WriteError{Index: i, Code: codeDuplicateKey, Message: "duplicate key"}
		}
		c.w.mongo.put(c.of, id, documents[i], by)
		return 1, nil
	}, func(i int) bool { return refused[i] })
}

// refuses reports whether the server refuses to insert a document. An index on the meta may refuse buckets, but not segments.
func (c port) refuses(document bson.Raw) bool {
	meta, _ := document.Lookup(timeseries.FieldMeta).StringValueOK()
	return poisonRecords(document) || c.w.traits.refusing && c.w.chaos && meta == refusedSeries
}

// Update implements mongodb.Collection.
func (c port) Update(ctx context.Context, updates []mongodb.Update) (mongodb.Reply, error) {
	t := taskOf(ctx)
	if c.w.broken == fencesLie && c.of == c.w.mongo.parts && isFenced(t.what) {
		return mongodb.Reply{N: 1}, nil
	}
	if c.w.broken == optionsUnlocked && isLock(updates[0].Filter) {
		return mongodb.Reply{N: 1}, nil
	}
	by := c.w.checks.sending(c.w, t, c.of, updates)
	updates = slices.Clone(updates)
	for i, u := range updates {
		updates[i] = mongodb.Update{Filter: slices.Clone(u.Filter), Update: slices.Clone(u.Update)}
	}
	c.ids = idsOf(updates, func(u mongodb.Update) bson.Raw { return u.Filter })
	return c.write(ctx, len(updates), func(i int) (int, *mongodb.WriteError) {
		filter := updates[i].Filter
		id := string(filter.Lookup("_id").Value)
		if poisonRecords(updates[i].Update) {
			return 0, &mongodb.WriteError{Index: i, Code: codeBadValue, Message: "poison"}
		}
		before := c.of.now(id)
		anyway := c.of == c.w.mongo.buckets && c.w.broken == conditionsIgnored || isClaim(t.what) && c.w.broken == claimsWithoutCompare
		if before == nil || !anyway && !matches(before, filter) {
			return 0, nil
		}
		if c.onlyACopy(before, filter) {
			return 1, nil
		}
		c.w.mongo.put(c.of, id, updated(before, updates[i].Update), by)
		return 1, nil
	}, func(i int) bool { return poisonRecords(updates[i].Update) })
}

// Delete implements mongodb.Editable.
func (c port) Delete(ctx context.Context, filters []bson.Raw) (mongodb.Reply, error) {
	by := c.w.checks.sending(c.w, taskOf(ctx), c.of, nil)
	filters = slices.Clone(filters)
	return c.write(ctx, len(filters), func(i int) (int, *mongodb.WriteError) {
		id := string(filters[i].Lookup("_id").Value)
		before := c.of.now(id)
		if before == nil || !matches(before, filters[i]) {
			return 0, nil
		}
		if c.onlyACopy(before, filters[i]) {
			return 1, nil
		}
		c.w.mongo.put(c.of, id, nil, by)
		return 1, nil
	}, func(int) bool { return false })
}

func isFenced(a pipeline.Action) bool {
	switch a.(type) {
	case pipeline.ResolveWrites, pipeline.AskPositions:
		return true
	}
	return false
}

// write makes one write command. Its writes are executed at once, later within the grace, in two parts, or never. Its answer
// comes when a majority has the writes, or never.
func (c port) write(ctx context.Context, n int, execute func(int) (int, *mongodb.WriteError), refused func(int) bool) (mongodb.Reply, error) {
	t, w := taskOf(ctx), c.w
	session, _ := ctx.Value(sessionKey{}).(*session)
	left := t.p.W
	if t.sendBy > 0 {
		left = t.sendBy - w.now
	}
	if left <= 0 || w.mishap(w.traits.lossy/2) {
		return mongodb.Reply{}, &mongodb.NotSentError{Err: errors.New("connection refused")}
	}
	t.p.called()
	if a, claims := t.what.(pipeline.SendClaim); claims && !a.Seen.Found {
		w.firstClaims[t.r.partition] = w.now
	}
	sent := command{w: w, n: n, execute: execute, refused: refused, late: w.traits.late}
	switch {
	case isRelease(t.what):
		sent.late = max(sent.late, 0.3)
	case t.p == w.repairer: // owners write at the same time
		sent.late = max(sent.late, 0.6)
	}
	if w.chaos && (isClaim(t.what) && isClaim(t.p.evictIn) || isRelease(t.what) && isRelease(t.p.evictIn)) {
		t.p.evictIn = nil
		t.p.cut, t.p.only = w.now+w.between(10, 30), true
		sent.delay = w.between(left.Seconds()/2, left.Seconds())
		w.at(w.now, func() { w.remove(t.p) })
	}
	t.hand(c.ids)
	answer, answered := t.await(left, func(answer func(any)) { sent.send(t.p, answer) })
	if !answered {
		w.note("(met) " + unansweredName(t.what))
		if c.of == w.mongo.buckets && w.broken == sentAsUnsent {
			return mongodb.Reply{}, &mongodb.NotSentError{Err: claim.ErrNoTurn}
		}
		return mongodb.Reply{}, errNoAnswer
	}
	if err, failed := answer.(error); failed {
		t.takeBack(c.ids)
		return mongodb.Reply{}, err
	}
	a := answer.(confirmed)
	if a.reply.Unconfirmed == nil {
		c.learn(session, a.seq)
	}
	return a.reply, nil
}

// idsOf returns the _ids of the documents of a command.
func idsOf[T any](all []T, in func(T) bson.Raw) []string {
	ids := make([]string, len(all))
	for i := range all {
		ids[i] = string(in(all[i]).Lookup("_id").Value)
	}
	return ids
}

// hand records the documents of a command that is sent now.
func (t *task) hand(ids []string) {
	if t.handed == nil {
		t.handed = map[string]bool{}
	}
	for _, id := range ids {
		t.handed[id] = true
	}
}

// takeBack records that a command was refused before any of it was executed.
func (t *task) takeBack(ids []string) {
	for _, id := range ids {
		delete(t.handed, id)
	}
}

func isClaim(a pipeline.Action) bool {
	_, is := a.(pipeline.SendClaim)
	return is
}

func isRollBack(a pipeline.Action) bool {
	_, is := a.(pipeline.DeleteCompacted)
	return is
}

func isRelease(a pipeline.Action) bool {
	_, is := a.(pipeline.SendRelease)
	return is
}

// unansweredName returns the name under which a command without answer is counted.
func unansweredName(a pipeline.Action) string {
	switch {
	case isClaim(a):
		return "claim without answer"
	case isRelease(a):
		return "release without answer"
	}
	return "writes without answer"
}

// Find implements mongodb.Collection.
func (c port) Find(ctx context.Context, q mongodb.Query, each func(bson.Raw) error) error {
	seq, err := c.moment(ctx)
	if err != nil {
		return err
	}
	if t := taskOf(ctx); isLoad(t.what) && c.of == c.w.mongo.buckets && t.r.phase == "loading stored positions" { // this read comes before the read of the notes
		t.r.readAt = seq
	}
	if c.w.broken == rollBackUnread && c.of == c.w.mongo.buckets && isRollBack(taskOf(ctx).what) {
		return c.findOnce(ctx, q, seq, each)
	}
	if c.w.traits.sharded && c.of == c.w.mongo.buckets && (!q.AtOnce || c.w.broken == shardsReadApart) {
		return c.readShards(ctx, q, seq, each)
	}
	return c.read(q, seq, each)
}

func isLoad(a pipeline.Action) bool {
	_, loads := a.(pipeline.LoadStoredPositions)
	return loads
}

// moment asks the server, and returns the state that a read sees.
func (c port) moment(ctx context.Context) (int64, error) {
	t, w := taskOf(ctx), c.w
	session, _ := ctx.Value(sessionKey{}).(*session)
	answer, answered := t.await(2*t.p.W, func(answer func(any)) {
		if w.mishap(w.traits.lossy) {
			return
		}
		delay := w.between(0, 0.1)
		if w.mishap(w.traits.late) || w.mongo.hanging > w.now && w.mishap(0.7) {
			delay = min(w.between(0, t.p.W.Seconds()), 2*t.p.W)
		}
		w.at(w.now+delay, func() {
			if w.mongo.away > w.now {
				answer(error(errNoPrimary))
				return
			}
			answer(c.snapshot(t, session))
		})
	})
	if !answered {
		return 0, errNoAnswer
	}
	if err, failed := answer.(error); failed {
		return 0, err
	}
	seq := answer.(int64)
	if w.traits.sessions {
		c.learn(session, seq)
	}
	return seq, nil
}

// snapshot returns the state that a read sees.
func (c port) snapshot(t *task, s *session) int64 {
	w, m := c.w, c.w.mongo
	if !w.traits.sessions {
		return m.seq
	}
	low := max(m.floor, m.majority-30)
	if s != nil {
		low = max(c.known(s), m.floor)
	}
	if isLoad(t.what) && w.broken == storedFromSecondary {
		low = max(0, m.majority-30)
		return low + w.rnd.Int64N(m.majority-low+1)
	}
	steady := t.p == w.repairer && w.now > m.elected+10*time.Second // a primary that is not new shows everything it has acknowledged
	if !w.chaos || !w.traits.lag || steady || low >= m.majority {
		return m.majority
	}
	return low + w.rnd.Int64N(m.majority-low+1)
}

func (c port) read(q mongodb.Query, seq int64, each func(bson.Raw) error) error {
	return c.readAs(q, func(id string) bson.Raw { return c.of.asOf(id, seq) }, each)
}

// readAs calls each for the documents that match a query. of returns a document as the query sees it. Nil means that there is none.
func (c port) readAs(q mongodb.Query, of func(id string) bson.Raw, each func(bson.Raw) error) error {
	found := int64(0)
	ids := c.of.order
	if _, err := q.Sort.LookupErr("_id"); q.Sort != nil && err == nil { // by _id, newest first
		ids = slices.Clone(ids)
		slices.SortFunc(ids, func(a, b string) int { return strings.Compare(b, a) })
	}
	for _, id := range ids {
		d := of(id)
		if d == nil || !matches(d, q.Filter) {
			continue
		}
		if err := each(d); err != nil {
			return err
		}
		if found++; found == q.Limit {
			return nil
		}
	}
	return nil
}

// These are fields of the measurements in the simulation.
const (
	refusedSeries = "B"
	poisonField   = "poison"
	poisonPath    = timeseries.FieldData + "." + poisonField
)
