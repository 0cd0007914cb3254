package collection

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/mongodb"
	"waterwheel/internal/timeseries"
)

// Right is a right of MongoDB that a running consumer needs or may need.
type Right struct {
	Action    string // MongoDB's name of the action, such as createIndex
	Role      string // the smallest built-in role that has it
	Namespace string // the collection, or the database for a right on all of it
	For       string // what the right is needed for, as a gerund
	// Due means that a consumer needs the right in the present state. Otherwise it may need the right later.
	Due bool
	// Instead says what would replace the right. Empty means nothing.
	Instead string
}

// Trial is the result of trying a user's rights.
type Trial struct {
	Tried   int // number of operations
	Missing []Right
	// Slowest is how long the slowest operation took. Some of the operations are writes that a majority must confirm.
	Slowest time.Duration
}

// Trial tries the rights that a consumer needs on the time series, by operations that change nothing. They find nothing, or
// MongoDB refuses them for other reasons after it has checked the rights. o are the options for a time series that is not set up
// yet. The error means that the answer is not known now.
//
// Without a login there is little to try, because such a server allows everybody everything, or nothing at all. Trial then leaves
// out inserts, deletes, and commands for indexes and views. Imitations of MongoDB without logins would carry them out.
func (t TimeSeries) Trial(ctx context.Context, o timeseries.Options, as Settings) (Trial, error) {
	o, err := o.Normalize()
	if err != nil {
		return Trial{}, err
	}
	try := &trial{series: t.series(), own: mongodb.WithID("trial/" + rand.Text())}
	try.options, try.settings = o, as.withDefaults()
	try.collections(ctx)
	try.reading(ctx)
	try.writing(ctx)
	try.indexing(ctx)
	try.viewing(ctx)
	return try.Trial, try.err
}

// trial is a Trial under way. After an error it tries nothing more.
type trial struct {
	*series
	Trial
	own     bson.Raw // filter of a document that does not exist
	login   bool     // a user is logged in
	granted []granted
	there   []string // the names of all collections
	defined bool     // the time series is set up
	begins  bool     // it has no segments, and the next start begins them
	err     error
}

// right returns the right that a command on a collection of the time series needs.
func (t *trial) right(command, suffix, what string) Right {
	action, role := mongodb.RightOf(command)
	return Right{Action: action, Role: role, Namespace: t.namespace() + suffix, For: what, Due: true}
}

// has reports whether the user has the right that an operation needs. refused says that MongoDB may refuse the operation for
// another reason, after it has checked the rights.
func (t *trial) has(ctx context.Context, refused bool, operation func(context.Context) error) bool {
	if t.err != nil {
		return false
	}
	limited, cancel := context.WithTimeout(ctx, t.db.WriteTimeout())
	defer cancel()
	begin := time.Now()
	err := t.db.Translate(operation(limited))
	t.Tried++
	t.Slowest = max(t.Slowest, time.Since(begin))
	switch {
	case err == nil, mongodb.LacksRight(err):
		return err == nil
	case refused && mongodb.Refuses(err):
		return true
	}
	t.err = mongodb.Failure("trying the user's rights", mongodb.Within(t.db.WriteTimeout(), err))
	return false
}

// needs notes a right as missing unless the user has it.
func (t *trial) needs(ctx context.Context, r Right, refused bool, operation func(context.Context) error) bool {
	has := t.has(ctx, refused, operation)
	if !has {
		t.lacks(r)
	}
	return has
}

// lacks notes a right as missing, unless an earlier error makes the answer unknown.
func (t *trial) lacks(r Right) {
	if t.err == nil {
		t.Missing = append(t.Missing, r)
	}
}

// command returns an operation that runs a command.
func (t *trial) command(name, collection string, fields ...bson.E) func(context.Context) error {
	return func(ctx context.Context) error {
		return t.driver().RunCommand(ctx, append(bson.D{{Key: name, Value: collection}}, fields...)).Err()
	}
}

// collections finds out which collections exist, and whether a user is logged in.
func (t *trial) collections(ctx context.Context) {
	list := t.right("listCollections", "", "listing collections")
	list.Namespace = t.db.Name()
	t.needs(ctx, list, false, func(ctx context.Context) (err error) {
		t.there, err = t.driver().ListCollectionNames(ctx, bson.D{})
		return err
	})
	var status struct {
		Login struct {
			Users      bson.A    `bson:"authenticatedUsers"`
			Privileges []granted `bson:"authenticatedUserPrivileges"`
		} `bson:"authInfo"`
	}
	ask := bson.D{{Key: "connectionStatus", Value: 1}, {Key: "showPrivileges", Value: true}}
	err := t.admin().RunCommand(ctx, ask).Decode(&status)
	t.login, t.granted = err == nil && len(status.Login.Users) > 0, status.Login.Privileges
}

// granted holds actions that the server lists as allowed to the user.
type granted struct {
	Resource struct {
		DB         string `bson:"db"`
		Collection string `bson:"collection"`
	} `bson:"resource"`
	Actions []string `bson:"actions"`
}

// mayDrop reports whether the user may drop the view. It looks in the list of granted actions, because a role may allow only the
// view. Otherwise it tries to drop a name that does not exist.
func (t *trial) mayDrop(ctx context.Context) bool {
	const action = "dropCollection"
	listed := func(g granted) bool {
		return g.Resource.DB == t.db.Name() && g.Resource.Collection == t.name && slices.Contains(g.Actions, action)
	}
	return slices.ContainsFunc(t.granted, listed) || t.has(ctx, true, t.command("drop", "waterwheel.trial-"+rand.Text()[:8]))
}

// reading tries reading, and reads the definition of the time series.
func (t *trial) reading(ctx context.Context) {
	find := func(c mongodb.Collection) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := mongodb.First(ctx, c, mongodb.Query{Filter: t.own})
			return err
		}
	}
	readable := t.needs(ctx, t.right("find", timeseries.OptionsSuffix, "reading the collection's options"), false, find(t.ports.Options))
	buckets := t.needs(ctx, t.right("find", timeseries.BucketsSuffix, "reading stored measurements"), false, find(t.ports.Buckets))
	t.needs(ctx, t.right("find", timeseries.PartitionsSuffix, "reading claims"), false, find(t.ports.Partitions))
	if t.err != nil || !readable {
		return
	}
	definition, err := ReadDefinition(ctx, t.ports.Options)
	switch {
	case err == nil:
		t.defined, t.options, t.segments = true, definition.Options, definition.Segments
	case !errors.Is(err, ErrNotSetUp):
		t.err = err
		return
	}
	t.begins = !t.segments && t.settings.Segments == SegmentsOn
	if !t.segments && t.settings.Segments == SegmentsAuto && t.settings.View != ViewNone && buckets {
		why, err := t.hasBegun(ctx)
		t.begins, t.err = why == nil, err
	}
}

// writing tries writes of documents. Without a login it updates only collections that exist, because some servers create a
// missing collection on an update.
func (t *trial) writing(ctx context.Context) {
	const claims, storing = "claiming partitions", "storing measurements"
	for _, c := range []struct {
		port     mongodb.Collection
		suffix   string
		what     string
		updating bool // the update is due
	}{
		{t.ports.Options, timeseries.OptionsSuffix, "defining the collection, recording its topics, and changing its options", !t.defined || t.begins},
		{t.ports.Partitions, timeseries.PartitionsSuffix, claims, true},
		{t.ports.Buckets, timeseries.BucketsSuffix, storing, true},
	} {
		insert, update := t.right("insert", c.suffix, c.what), t.right("update", c.suffix, c.what)
		update.Due = c.updating
		if t.login {
			t.needs(ctx, insert, true, func(ctx context.Context) error {
				_, err := mongodb.Changed(c.port.Insert(ctx, []bson.Raw{mongodb.Document(bson.D{{Key: "_id", Value: bson.A{}}})})) // no _id is an array
				return err
			})
		}
		if t.login || slices.Contains(t.there, t.name+c.suffix) {
			t.needs(ctx, update, false, func(ctx context.Context) error {
				_, err := mongodb.Changed(c.port.Update(ctx, []mongodb.Update{{Filter: t.own, Update: mongodb.Set(bson.D{{Key: "tried", Value: true}})}}))
				return err
			})
		}
	}
	if t.login && (t.segments || t.begins) {
		t.needs(ctx, t.right("delete", timeseries.BucketsSuffix, "deleting segments whose measurements are in buckets"), false,
			func(ctx context.Context) error {
				_, err := t.buckets().DeleteMany(ctx, t.own)
				return err
			})
	}
}

// indexing tries the operations on indexes.
func (t *trial) indexing(ctx context.Context) {
	var specs []bson.Raw
	t.needs(ctx, t.right("listIndexes", timeseries.BucketsSuffix, "listing indexes"), false, func(ctx context.Context) (err error) {
		specs, err = t.rawIndexes(ctx)
		return err
	})
	if !t.login {
		return
	}
	wanted := t.indexes()
	if t.segments || t.begins {
		wanted = append(wanted, t.segmentIndexes()...)
	}
	if t.options.ExpireAfterSeconds != 0 {
		wanted = append(wanted, expiryIndex(t.options))
	}
	create := t.right("createIndexes", timeseries.BucketsSuffix, "creating indexes")
	create.Due = slices.ContainsFunc(wanted, func(keys bson.D) bool { return !hasIndex(specs, keys) })
	none := bson.D{{Key: "key", Value: bson.D{{Key: "trial", Value: "waterwheel"}}}, {Key: "name", Value: "trial"}} // no index is of such a type
	t.needs(ctx, create, true, t.command("createIndexes", t.buckets().Name(), bson.E{Key: "indexes", Value: bson.A{none}}))
	t.keeping(ctx, specs)
}

// keeping tries the operations for buckets that expire earlier than the options say.
func (t *trial) keeping(ctx context.Context, specs []bson.Raw) {
	const what = "correcting an index that deletes measurements too early"
	for _, spec := range specs {
		index := t.indexOf(spec, nil)
		have, _ := expiryIn(spec)
		want := int64(t.options.TTLSeconds())
		switch {
		case index.Kind != IndexOfExpiry || want != 0 && want <= have:
		case want == 0:
			r := t.right("dropIndexes", timeseries.BucketsSuffix, what)
			t.needs(ctx, r, true, t.command("dropIndexes", t.buckets().Name(), bson.E{Key: "index", Value: "waterwheel"}))
		default:
			r := t.right("collMod", timeseries.BucketsSuffix, what)
			t.needs(ctx, r, true, t.command("collMod", t.buckets().Name(), expiryOfNoIndex(want)))
		}
	}
}

// viewing tries what the next start would do with the view.
func (t *trial) viewing(ctx context.Context) {
	if !t.login || t.err != nil {
		return
	}
	have, err := t.existing(ctx, t.name)
	if err != nil {
		if !mongodb.LacksRight(err) {
			t.err = err
		}
		return
	}
	unknown := bson.A{bson.D{{Key: "$waterwheel", Value: bson.D{}}}} // no view has such a stage
	view := []bson.E{{Key: "viewOn", Value: t.buckets().Name()}, {Key: "pipeline", Value: unknown}}
	create := t.command("create", t.name, view...)
	switch {
	case t.settings.View == ViewNone && t.isView(have) && t.kindOf(have) != ViewForeign:
		if !t.mayDrop(ctx) {
			t.lacks(t.right("drop", "", "dropping the view, as MONGODB_VIEW=none asks"))
		}
	case t.settings.View == ViewNone:
	case have.kind == "":
		r := t.right("create", "", "creating the view of the measurements")
		r.Instead = "or set MONGODB_VIEW=none"
		t.needs(ctx, r, true, create)
	case t.isView(have) && t.viewIsDue(have) && !t.has(ctx, true, t.command("collMod", t.name, view...)) && !(t.mayDrop(ctx) && t.has(ctx, true, create)):
		r := t.right("collMod", "", "changing the view of the measurements")
		r.Instead = "or grant dropCollection and createCollection on it, which the role readWrite has; or set MONGODB_VIEW=none"
		t.lacks(r)
	}
}

// viewIsDue reports whether the next start changes the view.
func (t *trial) viewIsDue(have existing) bool {
	kind := t.kindOf(have)
	if t.settings.View != ViewAuto && t.settings.View != kind || kind == ViewForeign {
		return true
	}
	wide := t.widest(have)
	wide.segments = wide.segments || t.begins
	return !have.hasPipeline(wide.pipeline(kind))
}
