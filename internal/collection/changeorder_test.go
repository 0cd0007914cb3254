package collection_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/collection"
	"waterwheel/internal/mongodb"
	"waterwheel/internal/timeseries"
)

// kept is a sink.Upkeep with the options collection, in memory. It records all changes, and can fail at the n-th change.
type kept struct {
	options  bson.D
	holder   string // holder of the lock. "-" means that there is no lock yet.
	expiry   int32
	span     int32
	steps    []string
	failAt   int
	stale    bool // Another process changes the definition before it is written.
	released bool
	undo     func() // It is called just before the definition is written, to undo something.
}

var errCut = errors.New("cut off")

func (k *kept) step(format string, arguments ...any) error {
	k.steps = append(k.steps, fmt.Sprintf(format, arguments...))
	if k.failAt == len(k.steps) {
		return errCut
	}
	return nil
}

func (k *kept) Expiry(context.Context) (int32, error)   { return k.expiry, nil }
func (k *kept) ViewSpan(context.Context) (int32, error) { return k.span, nil }

func (k *kept) EvenExpiry(context.Context) error { return nil }

func (k *kept) SetExpiry(_ context.Context, seconds int32) error {
	if err := k.step("expiry %d", seconds); err != nil {
		return err
	}
	k.expiry = seconds
	return nil
}

func (k *kept) SetViewSpan(_ context.Context, seconds int32) error {
	if err := k.step("view %d", seconds); err != nil {
		return err
	}
	k.span = seconds
	return nil
}

func (k *kept) Insert(_ context.Context, documents []bson.Raw) (mongodb.Reply, error) {
	if k.holder != "-" {
		return mongodb.Reply{Errors: []mongodb.WriteError{{Code: 11000}}}, nil
	}
	k.holder = documents[0].Lookup("token").StringValue()
	return mongodb.Reply{N: 1}, nil
}

func (k *kept) Update(_ context.Context, updates []mongodb.Update) (mongodb.Reply, error) {
	filter, set := updates[0].Filter, updates[0].Update.Lookup("$set").Document()
	if filter.Lookup("_id").StringValue() == "change" {
		if k.holder != filter.Lookup("token").StringValue() {
			return mongodb.Reply{}, nil
		}
		k.holder = set.Lookup("token").StringValue()
		k.released = k.holder == ""
		return mongodb.Reply{N: 1}, nil
	}
	if k.stale {
		return mongodb.Reply{}, nil
	}
	if k.undo != nil {
		k.undo()
	}
	if err := k.step("definition"); err != nil {
		return mongodb.Reply{}, err
	}
	unset, _ := updates[0].Update.Lookup("$unset").DocumentOK()
	k.options = slices.DeleteFunc(k.options, func(e bson.E) bool { return unset.Lookup(e.Key).Type != 0 })
	elements, _ := set.Elements()
	for _, e := range elements {
		k.options = merged(k.options, bson.D{{Key: e.Key(), Value: e.Value()}})
	}
	return mongodb.Reply{N: 1}, nil
}

func (k *kept) Find(_ context.Context, q mongodb.Query, each func(bson.Raw) error) error {
	if q.Filter.Lookup("_id").StringValue() == "options" {
		return each(marshal(k.options))
	}
	if k.holder == "-" {
		return nil
	}
	return each(marshal(bson.D{{Key: "_id", Value: "change"}, {Key: "token", Value: k.holder}, {Key: "waitMs", Value: int64(5000)}}))
}

// definedBy returns a definition with the correct state of the server.
func definedBy(granularity timeseries.Granularity, expire int64) *kept {
	o, err := timeseries.Options{TimeField: "time", Granularity: granularity, ExpireAfterSeconds: expire}.Normalize()
	if err != nil {
		panic(err)
	}
	d := bson.D{
		{Key: "_id", Value: "options"},
		{Key: "version", Value: int32(3)},
		{Key: "timeField", Value: "time"},
		{Key: "granularity", Value: string(granularity)},
		{Key: "bucketMaxSpanSeconds", Value: o.MaxSpanSeconds},
	}
	if expire > 0 {
		d = append(d, bson.E{Key: "expireAfterSeconds", Value: expire})
	}
	return &kept{options: d, holder: "-", expiry: o.TTLSeconds(), span: o.MaxSpanSeconds}
}

func (k *kept) change(t testing.TB, sleep func(context.Context, time.Duration) error, by func(timeseries.Options) (timeseries.Options, error)) (after timeseries.Options, err error) {
	t.Helper()
	_, after, err = collection.OptionsChange{Options: k, Upkeep: k, WriteTimeout: time.Second, Sleep: sleep}.Run(t.Context(), by)
	return after, err
}

// TestChangeOrder checks that expiry and view are raised before the definition is written, and lowered after it. After an
// interruption at any point they are correct for the definition, and a repeated change completes the rest.
func TestChangeOrder(t *testing.T) {
	const day, hour = 86400, 3600
	to := func(g timeseries.Granularity, expire int64) func(timeseries.Options) (timeseries.Options, error) {
		return func(o timeseries.Options) (timeseries.Options, error) {
			return o.Change(timeseries.Options{Granularity: g, ExpireAfterSeconds: expire})
		}
	}
	for name, c := range map[string]struct {
		from   *kept
		to     func(timeseries.Options) (timeseries.Options, error)
		steps  []string
		expiry int32
	}{
		"a larger span":              {definedBy(timeseries.Seconds, 0), to(timeseries.Minutes, 0), []string{"view 86400", "definition"}, 0},
		"a larger span, with expiry": {definedBy(timeseries.Seconds, day), to(timeseries.Minutes, day), []string{"expiry 172800", "view 86400", "definition"}, 2 * day},
		"a longer expiry":            {definedBy(timeseries.Seconds, day), to("", 2*day), []string{"expiry 176400", "definition"}, 2*day + hour},
		"a shorter expiry":           {definedBy(timeseries.Seconds, day), to("", hour), []string{"definition", "expiry 7200"}, 2 * hour},
		"a first expiry":             {definedBy(timeseries.Seconds, 0), to("", hour), []string{"definition", "expiry 7200"}, 2 * hour},
		"no expiry any more":         {definedBy(timeseries.Seconds, day), to("", 0), []string{"expiry 0", "definition"}, 0},
		"both, shorter and larger":   {definedBy(timeseries.Seconds, 10*day), to(timeseries.Minutes, hour), []string{"expiry 950400", "view 86400", "definition", "expiry 90000"}, day + hour},
		"nothing":                    {definedBy(timeseries.Seconds, day), to("", day), []string{"definition"}, day + hour},
	} {
		for cut := 0; cut <= len(c.steps); cut++ {
			k := *c.from
			k.options, k.failAt = slices.Clone(c.from.options), cut
			after, err := k.change(t, nil, c.to)
			if (cut == 0) != (err == nil) || cut > 0 && !errors.Is(err, errCut) {
				t.Errorf("%s, cut at %d: %v", name, cut, err)
			}
			if want := c.steps[:max(cut, len(c.steps)*(1-min(cut, 1)))]; !slices.Equal(k.steps, want) {
				t.Errorf("%s, cut at %d: %q, want %q", name, cut, k.steps, want)
			}
			now := k.defined(t)
			if covers, err := collection.Covers(t.Context(), &k, now); err != nil || !covers {
				t.Errorf("%s, cut at %d: expiry %d and view %d do not cover %+v", name, cut, k.expiry, k.span, now)
			}
			// A command without an answer may still be executed, so the lock is kept until this is impossible.
			if _, ok := errors.AsType[*mongodb.OutageError](err); k.released == ok {
				t.Errorf("%s, cut at %d: the lock is released: %v, after %v", name, cut, k.released, err)
			}
			k.failAt = 0
			waited := func(context.Context, time.Duration) error { return nil }
			if after, err = k.change(t, waited, c.to); err != nil || after != k.defined(t) || k.expiry != c.expiry || k.span != after.MaxSpanSeconds {
				t.Errorf("%s, cut at %d and repeated: %v, %+v, expiry %d, view %d", name, cut, err, after, k.expiry, k.span)
			}
		}
	}
}

// TestChangeOutlastsAStartingConsumer covers a consumer that has read the former options. It may set expiry and view by them
// until the new ones are written. If it dies then, no other process would correct that.
func TestChangeOutlastsAStartingConsumer(t *testing.T) {
	const day = 86400
	for name, to := range map[string]timeseries.Options{
		"no expiry any more": {},
		"a longer expiry":    {ExpireAfterSeconds: 2 * day},
		"a larger span":      {ExpireAfterSeconds: day, Granularity: timeseries.Minutes},
	} {
		k := definedBy(timeseries.Seconds, day)
		expiry, span := k.expiry, k.span
		k.undo = func() { k.expiry, k.span = expiry, span }
		after, err := k.change(t, nil, func(o timeseries.Options) (timeseries.Options, error) { return o.Change(to) })
		if covers, _ := collection.Covers(t.Context(), k, after); err != nil || !covers {
			t.Errorf("%s: %v; expiry %d and view %d do not cover %+v", name, err, k.expiry, k.span, after)
		}
	}
}

func (k *kept) defined(t testing.TB) timeseries.Options {
	t.Helper()
	d, err := timeseries.ReadDefinition(marshal(k.options))
	if err != nil {
		t.Fatal(err)
	}
	return d.Options
}

func grow(o timeseries.Options) (timeseries.Options, error) {
	return o.Change(timeseries.Options{Granularity: timeseries.Hours, ExpireAfterSeconds: o.ExpireAfterSeconds})
}

// TestChangeWaitsForAnother checks that a change waits for a live process as long as that holds the lock. Commands of a dead one
// may still arrive for a while.
func TestChangeWaitsForAnother(t *testing.T) {
	k := definedBy(timeseries.Seconds, 0)
	k.holder = "another"
	slept := time.Duration(0)
	sleep := func(_ context.Context, d time.Duration) error {
		if slept += d; slept > time.Minute {
			return errors.New("for ever")
		}
		if slept >= 3*time.Second && k.holder == "another" {
			k.holder = "a third"
		}
		return nil
	}
	if _, err := k.change(t, sleep, grow); err != nil || slept < 7900*time.Millisecond || !k.released {
		t.Errorf("%v after %v, released %v", err, slept, k.released)
	}
	k = definedBy(timeseries.Seconds, 0)
	k.holder = "another"
	if _, err := k.change(t, func(context.Context, time.Duration) error { k.holder = ""; return nil }, grow); err != nil {
		t.Errorf("after it was given back: %v", err)
	}
	k.holder = "another"
	if _, err := k.change(t, func(context.Context, time.Duration) error { return errCut }, grow); !errors.Is(err, errCut) {
		t.Errorf("stopped while it waits: %v", err)
	}
	k.holder, k.stale = "", true
	if _, err := k.change(t, nil, func(o timeseries.Options) (timeseries.Options, error) {
		return o.Change(timeseries.Options{ExpireAfterSeconds: 60})
	}); !errors.Is(err, collection.ErrChangedMeanwhile) || !k.released {
		t.Errorf("with another version: %v", err)
	}
}

func TestCovers(t *testing.T) {
	for _, c := range []struct {
		expiry, span int32
		o            timeseries.Options
		want         bool
	}{
		{0, 0, timeseries.Options{Granularity: timeseries.Hours}, true},
		{0, 3600, timeseries.Options{Granularity: timeseries.Seconds}, true},
		{0, 3600, timeseries.Options{Granularity: timeseries.Minutes}, false},
		{86400, 0, timeseries.Options{Granularity: timeseries.Seconds}, false}, // documents are kept for ever
		{86400 + 3600, 0, timeseries.Options{Granularity: timeseries.Seconds, ExpireAfterSeconds: 86400}, true},
		{86400 + 3600, 0, timeseries.Options{Granularity: timeseries.Minutes, ExpireAfterSeconds: 86400}, false},
		{0, 0, timeseries.Options{Granularity: timeseries.Minutes, ExpireAfterSeconds: 86400}, true},
	} {
		c.o.TimeField = "time"
		o, err := c.o.Normalize()
		if err != nil {
			t.Fatal(err)
		}
		if got, err := collection.Covers(t.Context(), &kept{expiry: c.expiry, span: c.span}, o); err != nil || got != c.want {
			t.Errorf("%+v: %v, %v", c, got, err)
		}
	}
}
