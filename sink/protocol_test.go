package sink_test

import (
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/bucketer"
	"waterwheel/internal/claim"
	"waterwheel/internal/collection"
	"waterwheel/internal/mongodb"
	"waterwheel/internal/mongodb/mongodbtest"
	"waterwheel/internal/timeseries"
	"waterwheel/sink"
)

// onFake opens a database on a scripted server, with a partition under a claim of ours.
func onFake(t *testing.T, hello bson.D, change ...func(*mongodb.Options)) (*mongodbtest.Fake, *sink.Partition) {
	t.Helper()
	f := mongodbtest.NewFake(t, hello)
	o := mongodb.Options{
		URI:      "mongodb://" + f.Addr().String() + "/?w=1&retryWrites=true&readPreference=secondary&compressors=zstd&directConnection=true",
		Database: "db", WriteTimeout: 2 * time.Second, Logger: slog.New(slog.DiscardHandler),
	}
	for _, c := range change {
		c(&o)
	}
	d, err := mongodb.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close(t.Context()) })
	f.Answer("find", mongodbtest.EmptyCursor)
	f.Answer("insert", mongodbtest.Counting(1))
	f.Answer("update", mongodbtest.Counting(1))
	f.Answer("createIndexes", func(bson.Raw) bson.D { return bson.D{} })
	f.Answer("listCollections", mongodbtest.EmptyCursor)
	ready, err := collection.Of(d, "events").Setup(t.Context(), definition, collection.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	s := sink.NewStore(ready, sink.StoreOptions{MaxCount: 1000, WriteTimeout: o.WriteTimeout, Lease: o.Lease, Logger: o.Logger})
	p := s.Partition(source, "cluster", "group", "host")
	t.Cleanup(p.Close)
	claimWith(t, p)
	return f, p
}

func TestWritesAskForMajorityAndJournalAndATimeLimit(t *testing.T) {
	f, p := onFake(t, mongodbtest.ReplicaSet)
	w := insertOf("a", run(0, 1)...)
	sendAll(t, p, bucketer.Applied, w, updateOf(w, timeseries.Position{Offset: 1}))
	for _, command := range append(f.Sent("insert"), f.Sent("update")...) {
		if c := command.Index(0).Value().StringValue(); c == "events.options" {
			continue // a command of the set-up
		}
		if w, j := command.Lookup("writeConcern", "w"), command.Lookup("writeConcern", "j"); w.StringValue() != "majority" || !j.Boolean() {
			t.Errorf("write concern %v %v", w, j)
		}
		if limit, ok := command.Lookup("maxTimeMS").AsInt64OK(); !ok || limit <= 0 || limit > 2000 {
			t.Errorf("maxTimeMS %v", command.Lookup("maxTimeMS"))
		}
		if _, err := command.LookupErr("txnNumber"); err == nil {
			t.Error("the write is retryable")
		}
	}
}

func TestReadsAfterAFenceAreCausalAndOfTheMajority(t *testing.T) {
	f, p := onFake(t, mongodbtest.ReplicaSet)
	if _, err := p.Resolve(t.Context(), []*bucketer.Write{insertOf("a", run(0, 1)...)}); err != nil {
		t.Fatal(err)
	}
	read := f.Last("find")
	if level := read.Lookup("readConcern", "level"); level.StringValue() != "majority" {
		t.Errorf("read concern %v", level)
	}
	if _, err := read.LookupErr("readConcern", "afterClusterTime"); err != nil {
		t.Errorf("the read does not come after the fence: %v", read.Lookup("readConcern"))
	}
	if mode, ok := read.Lookup("$readPreference", "mode").StringValueOK(); ok && mode != "primaryPreferred" { // the mode for a single server
		t.Errorf("read preference %v", mode)
	}
}

func TestWithoutSessionsReadBackIsConfirmedByALaterWrite(t *testing.T) {
	for name, c := range map[string]struct {
		hello  bson.D
		fences int
	}{"replica set": {mongodbtest.ReplicaSet, 1}, "one node": {nil, 2}} {
		f, p := onFake(t, c.hello)
		w := insertOf("a", run(0, 1)...)
		f.Answer("find", func(bson.Raw) bson.D { return mongodbtest.CursorOf(w.Document) })
		before := len(f.Sent("update"))
		found, err := p.Resolve(t.Context(), []*bucketer.Write{w})
		if err != nil || found[0] != bucketer.Applied {
			t.Fatalf("%s: %v, %v", name, found, err)
		}
		if fences := len(f.Sent("update")) - before; fences != c.fences {
			t.Errorf("%s: %d fences", name, fences)
		}
	}
}

func TestLostAnswersAreUnknownAndNeverSentAgain(t *testing.T) {
	for name, answer := range map[string]func(bson.Raw) bson.D{
		"connection cut":   func(bson.Raw) bson.D { return nil },
		"interrupted":      mongodbtest.Failing(11602, "InterruptedDueToReplStateChange"),
		"overloaded":       func(bson.Raw) bson.D { return overloaded },
		"concern not met":  func(bson.Raw) bson.D { return unconfirmed },
		"only some match":  mongodbtest.Counting(0),
		"no time to wait":  mongodbtest.Failing(50, "MaxTimeMSExpired"),
		"host unreachable": mongodbtest.Failing(6, "HostUnreachable"),
	} {
		t.Run(name, func(t *testing.T) {
			f, p := onFake(t, mongodbtest.ReplicaSet)
			f.Answer("insert", answer)
			before := len(f.Sent("insert"))
			sendAll(t, p, bucketer.Unknown, insertOf("a", run(0, 1)...))
			if n := len(f.Sent("insert")) - before; n != 1 {
				t.Errorf("sent %d times", n)
			}
		})
	}
}

var (
	overloaded = bson.D{
		{Key: "ok", Value: 0},
		{Key: "code", Value: int32(462)},
		{Key: "errmsg", Value: "overloaded"},
		{Key: "errorLabels", Value: bson.A{"SystemOverloadedError", "RetryableError", "RetryableWriteError"}},
	}
	unconfirmed = bson.D{{Key: "n", Value: int32(1)}, {Key: "writeConcernError", Value: bson.D{
		{Key: "code", Value: int32(64)}, {Key: "errmsg", Value: "waiting for replication timed out"},
	}}}
)

func TestNoPrimaryMeansNotExecuted(t *testing.T) {
	f, p := onFake(t, mongodbtest.ReplicaSet)
	f.Answer("insert", mongodbtest.Failing(10107, "not primary"))
	sendAll(t, p, bucketer.NotExecuted, insertOf("a", run(0, 1)...))
}

func TestADeadServerMeansNotExecuted(t *testing.T) {
	f, p := onFake(t, nil)
	f.Answer("insert", func(bson.Raw) bson.D { f.Close(); return nil })
	sendAll(t, p, bucketer.Unknown, insertOf("a", run(0, 1)...)) // the server had the command
	sendAll(t, p, bucketer.NotExecuted, insertOf("b", run(1, 1)...))
	var outage *mongodb.OutageError
	if _, err := p.Read(t.Context()); !errors.As(err, &outage) {
		t.Errorf("a read: %v", err)
	}
}

func TestAWholeCommandRefusedIsSentOneByOne(t *testing.T) {
	f, p := onFake(t, mongodbtest.ReplicaSet)
	bad := insertOf("bad", run(5, 1)...)
	f.Answer("insert", func(command bson.Raw) bson.D {
		documents, _ := command.Lookup("documents").Array().Values()
		for _, d := range documents {
			if d.Document().Lookup("meta").StringValue() == "bad" {
				return mongodbtest.Failing(10334, "BSONObjectTooLarge")(nil)
			}
		}
		return mongodbtest.Counting(len(documents))(nil)
	})
	before := len(f.Sent("insert"))
	sent := p.Send(t.Context(), []*bucketer.Write{insertOf("a", run(0, 1)...), bad, insertOf("c", run(9, 1)...)})
	for i, want := range []bucketer.Result{bucketer.Applied, bucketer.Refused, bucketer.Applied} {
		if sent[i].Result != want {
			t.Errorf("write %d: %+v", i, sent[i])
		}
	}
	if n := len(f.Sent("insert")) - before; n != 4 || sent[1].Code != 10334 {
		t.Errorf("%d commands, %+v", n, sent[1])
	}
}

func TestALostClaimIsOursWhenReadShowsIt(t *testing.T) {
	f, p := onFake(t, mongodbtest.ReplicaSet)
	mine := claim.Claim{Token: token(), Start: 9}
	f.Answer("insert", func(bson.Raw) bson.D { return nil })
	var outage *mongodb.OutageError
	if won, err := p.Claim(t.Context(), claim.Document{}, mine); won || !errors.As(err, &outage) {
		t.Fatalf("%v, %v", won, err)
	}
	if _, err := p.Resolve(t.Context(), nil); !errors.Is(err, claim.ErrOtherOwner) {
		t.Errorf("a claim that is not known to be ours fences: %v", err)
	}
	f.Answer("find", func(bson.Raw) bson.D {
		return mongodbtest.CursorOf(bson.D{{Key: "_id", Value: "x"}, {Key: "group", Value: "group"}, {Key: "claim", Value: bson.Binary{Subtype: 4, Data: mine.Token[:]}}})
	})
	if seen, err := p.Read(t.Context()); err != nil || seen.Claim != mine.Token {
		t.Fatalf("%+v, %v", seen, err)
	}
	f.Answer("insert", mongodbtest.Counting(1))
	sendAll(t, p, bucketer.Applied, insertOf("a", run(0, 1)...))
}

func TestNothingIsSentWithoutTheLease(t *testing.T) {
	var held atomic.Bool
	held.Store(true)
	f, p := onFake(t, mongodbtest.ReplicaSet, func(o *mongodb.Options) { o.Lease = held.Load })
	held.Store(false)
	before := len(f.Sent("insert")) + len(f.Sent("update"))
	w := insertOf("a", run(0, 1)...)
	for _, s := range sendAll(t, p, bucketer.NotExecuted, w, updateOf(w, timeseries.Position{Offset: 1})) {
		if !errors.Is(s.Err, claim.ErrLapsed) {
			t.Errorf("%v", s.Err)
		}
	}
	if _, err := p.Claim(t.Context(), claim.Document{}, claim.Claim{Token: token()}); !errors.Is(err, claim.ErrLapsed) {
		t.Errorf("claim: %v", err)
	}
	if now := len(f.Sent("insert")) + len(f.Sent("update")); now != before {
		t.Errorf("%d commands were sent", now-before)
	}
	if _, err := p.Read(t.Context()); err != nil {
		t.Errorf("a read: %v", err)
	}
}

func TestTheConnectionStopsAWriteWhoseLeaseLapsed(t *testing.T) {
	// The check before the command says yes, and the check within the connection's Write says no.
	var lease atomic.Int32
	lease.Store(1 << 20)
	f, p := onFake(t, mongodbtest.ReplicaSet, func(o *mongodb.Options) { o.Lease = func() bool { return lease.Add(-1) >= 0 } })
	lease.Store(1)
	before := len(f.Sent("insert"))
	for _, s := range sendAll(t, p, bucketer.NotExecuted, insertOf("a", run(0, 1)...)) {
		if !errors.Is(s.Err, claim.ErrLapsed) {
			t.Errorf("%v", s.Err)
		}
	}
	if n := len(f.Sent("insert")); n != before {
		t.Error("the insert was sent")
	}
	lease.Store(1 << 20)
	sendAll(t, p, bucketer.Applied, insertOf("a", run(0, 1)...))
}

func TestSendWithoutAClaimBreaksE7(t *testing.T) {
	_, p := onFake(t, mongodbtest.ReplicaSet)
	if err := p.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if recover() == nil {
			t.Error("it was sent")
		}
	}()
	p.Send(t.Context(), []*bucketer.Write{insertOf("a", run(0, 1)...)})
}

func TestReleaseMayBeSentAgainButNothingElse(t *testing.T) {
	f, p := onFake(t, mongodbtest.ReplicaSet)
	f.Answer("update", func(bson.Raw) bson.D { return nil })
	var outage *mongodb.OutageError
	if err := p.Release(t.Context()); !errors.As(err, &outage) {
		t.Fatalf("without an answer: %v", err)
	}
	if _, err := p.Resolve(t.Context(), nil); !errors.Is(err, claim.ErrOtherOwner) {
		t.Errorf("a fence after the release: %v", err)
	}
	f.Answer("update", mongodbtest.Counting(1))
	if err := p.Release(t.Context()); err != nil {
		t.Errorf("again: %v", err)
	}
	if err := p.Release(t.Context()); !errors.Is(err, claim.ErrOtherOwner) {
		t.Errorf("after it was answered: %v", err)
	}
}

func TestAnUnsupportedWriteConcernIsRefused(t *testing.T) {
	f, p := onFake(t, mongodbtest.ReplicaSet)
	f.Answer("update", func(bson.Raw) bson.D {
		return bson.D{{Key: "n", Value: int32(1)}, {Key: "writeConcernError", Value: bson.D{
			{Key: "code", Value: int32(100)}, {Key: "errmsg", Value: "UnsatisfiableWriteConcern"},
		}}}
	})
	var refused *mongodb.RefusedError
	if _, err := p.Resolve(t.Context(), nil); !errors.As(err, &refused) || refused.Code != 100 {
		t.Errorf("%v", err)
	}
}

// TestARefusedWriteConcernBlamesNoDocument covers a server that has lost its journal. It refuses every command with a code that
// bad documents get as well.
func TestARefusedWriteConcernBlamesNoDocument(t *testing.T) {
	f, p := onFake(t, mongodbtest.ReplicaSet)
	refusing := mongodbtest.Failing(2, "cannot use 'j' option when a host does not have journaling enabled")
	f.Answer("insert", refusing)
	writes := []*bucketer.Write{insertOf("a", run(0, 1)...), insertOf("b", run(1, 1)...)}
	sendAll(t, p, bucketer.Refused, writes...) // other commands are executed, so the documents are the cause
	f.Answer("update", refusing)
	sendAll(t, p, bucketer.Unknown, writes...)
	var refused *mongodb.RefusedError
	if _, err := p.Resolve(t.Context(), writes); !errors.As(err, &refused) || refused.Code != 2 {
		t.Errorf("%v", err)
	}
	if won, err := p.Claim(t.Context(), claim.Document{Found: true}, claim.Claim{Token: token()}); won || !errors.As(err, &refused) {
		t.Errorf("a claim: %v, %v", won, err)
	}
	f.Answer("insert", mongodbtest.Counting(1))
	f.Answer("update", mongodbtest.Counting(1))
	claimWith(t, p)
	sendAll(t, p, bucketer.Applied, writes[:1]...)
}

func TestAWriteWithoutAnAnswerIsGivenUpAtItsDeadline(t *testing.T) {
	f, p := onFake(t, mongodbtest.ReplicaSet, func(o *mongodb.Options) { o.WriteTimeout = 300 * time.Millisecond })
	cut := make(chan struct{})
	f.Answer("insert", func(bson.Raw) bson.D { <-cut; return nil })
	defer close(cut)
	start := time.Now()
	sendAll(t, p, bucketer.Unknown, insertOf("a", run(0, 1)...))
	if took := time.Since(start); took < 200*time.Millisecond || took > 2*time.Second {
		t.Errorf("it took %s", took)
	}
}

func TestFindGoesOnWithoutItsIndex(t *testing.T) {
	f, p := onFake(t, mongodbtest.ReplicaSet)
	f.Answer("find", func(command bson.Raw) bson.D {
		if _, err := command.LookupErr("hint"); err == nil {
			return mongodbtest.Failing(2, "hint provided does not correspond to an existing index")(nil)
		}
		return mongodbtest.CursorOf(insertOf("a", run(0, 1)...).Document)
	})
	for range 2 {
		answers, err := p.Find(t.Context(), lookups("a"))
		if err != nil || len(answers[0].Candidates) != 1 {
			t.Errorf("%v, %v", answers, err)
		}
	}
	hinted := 0
	for _, query := range f.Sent("find") {
		if _, err := query.LookupErr("hint"); err == nil {
			hinted++
		}
	}
	if hinted != 1 {
		t.Errorf("%d queries named the index", hinted)
	}
}
