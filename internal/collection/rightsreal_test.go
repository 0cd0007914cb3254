package collection_test

import (
	"context"
	"crypto/rand"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/collection"
	"waterwheel/internal/mongodb"
	"waterwheel/internal/mongodb/mongodbtest"
)

// grants are a user's actions on the time series "events", by the suffix of the collection's name. "" means the database.
type grants map[string][]string

// runs returns the rights that a consumer needs, as docs/runbook.md lists them.
func runs() grants {
	return grants{
		"":            {"listCollections"},
		"events":      {"createCollection", "dropCollection"},
		".options":    {"find", "insert", "update"},
		".partitions": {"find", "insert", "update"},
		".buckets":    {"find", "insert", "update", "remove", "createIndex", "listIndexes"},
	}
}

// without returns grants without one action.
func (g grants) without(on, action string) grants {
	less := grants{}
	for name, actions := range g {
		less[name] = slices.DeleteFunc(slices.Clone(actions), func(one string) bool { return name == on && one == action })
	}
	return less
}

// ruled is a real server with authorization and a user for the test.
type ruled struct {
	*env
	uri string // URI of the user
}

// loginURI returns the URI of a server with a login. It skips the test without such a server.
func loginURI(t *testing.T) *url.URL {
	t.Helper()
	admin, err := url.Parse(mongodbtest.URI(t))
	if err != nil || admin.User == nil {
		t.Skip("E2E_MONGODB_URI names no user: no rights to test with")
	}
	return admin
}

// newRuled skips the test if the user of E2E_MONGODB_URI may not create users.
func newRuled(t *testing.T) *ruled {
	t.Helper()
	admin := loginURI(t)
	r := &ruled{env: connect(t)}
	password := rand.Text()
	command := func(fields bson.D) error { return r.Raw.RunCommand(context.Background(), fields).Err() }
	for _, fields := range []bson.D{
		{{Key: "createRole", Value: "role"}, {Key: "privileges", Value: bson.A{}}, {Key: "roles", Value: bson.A{}}},
		{{Key: "createUser", Value: "user"}, {Key: "pwd", Value: password}, {Key: "roles", Value: bson.A{"role"}}},
	} {
		if err := command(fields); err != nil {
			t.Skipf("the user of E2E_MONGODB_URI may not make users and roles: %v", err)
		}
	}
	t.Cleanup(func() {
		for _, name := range []string{"dropAllUsersFromDatabase", "dropAllRolesFromDatabase"} {
			if err := command(bson.D{{Key: name, Value: 1}}); err != nil {
				t.Error(err)
			}
		}
	})
	query := admin.Query()
	query.Set("authSource", r.Name())
	query.Del("authMechanism")
	admin.User, admin.RawQuery = url.UserPassword("user", password), query.Encode()
	r.uri = admin.String()
	return r
}

// may grants the user exactly these rights and roles.
func (r *ruled) may(t *testing.T, g grants, roles ...string) {
	t.Helper()
	privileges := bson.A{}
	for on, actions := range g {
		name := "events" + on
		if on == "" || on == "events" {
			name = on
		}
		resource := bson.D{{Key: "db", Value: r.Name()}, {Key: "collection", Value: name}}
		if len(actions) > 0 {
			privileges = append(privileges, bson.D{{Key: "resource", Value: resource}, {Key: "actions", Value: actions}})
		}
	}
	inherited := bson.A{}
	for _, role := range roles {
		inherited = append(inherited, role)
	}
	update := bson.D{{Key: "updateRole", Value: "role"}, {Key: "privileges", Value: privileges}, {Key: "roles", Value: inherited}}
	if err := r.Raw.RunCommand(t.Context(), update).Err(); err != nil {
		t.Fatal(err)
	}
}

// as opens the time series as the user.
func (r *ruled) as(t *testing.T, log *strings.Builder) collection.TimeSeries {
	t.Helper()
	d, err := mongodb.Open(t.Context(), mongodb.Options{
		URI: r.uri, Database: r.Name(), WriteTimeout: 5 * time.Second, Logger: slog.New(slog.NewTextHandler(log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close(context.Background()) })
	return collection.Of(d, "events")
}

// noted reports whether the definition says that the time series has segments.
func (r *ruled) noted(t *testing.T) bool {
	t.Helper()
	var definition struct{ Segments bool }
	raw, err := r.Raw.Collection("events.options").FindOne(t.Context(), bson.D{{Key: "_id", Value: "options"}}).Raw()
	if err == nil {
		err = bson.Unmarshal(raw, &definition)
	}
	if err != nil {
		t.Fatal(err)
	}
	return definition.Segments
}

// names returns the names of all collections and views, without MongoDB's own collections.
func (r *ruled) names(t *testing.T) []string {
	t.Helper()
	names, err := r.Raw.ListCollectionNames(t.Context(), bson.D{})
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(sortedNames(names), func(name string) bool { return strings.HasPrefix(name, "system.") })
}

var allNames = []string{"events", "events.buckets", "events.options"}

// TestReadWriteIsEnoughOnAServer also begins segments on a view that was made without them.
func TestReadWriteIsEnoughOnAServer(t *testing.T) {
	r := newRuled(t)
	r.may(t, nil, "readWrite")
	var log strings.Builder
	for _, segments := range []collection.Segments{collection.SegmentsOff, collection.SegmentsAuto, collection.SegmentsAuto, collection.SegmentsOff} {
		d, as := r.as(t, &log), collection.Settings{Segments: segments}
		trial, err := d.Trial(t.Context(), definition, as)
		if err != nil || len(trial.Missing) > 0 {
			t.Errorf("SEGMENTS=%s: %+v, %v", segments, trial, err)
		}
		if _, err := d.Setup(t.Context(), definition, as); err != nil {
			t.Fatalf("SEGMENTS=%s: %v", segments, err)
		}
	}
	if state, err := collection.Of(r.Database, "events").View(t.Context(), collection.ViewAuto); err != nil || state.Kind == collection.ViewNone {
		t.Skipf("the server has no view: %+v, %v", state, err)
	}
	if strings.Count(log.String(), "created again") != 1 || strings.Contains(log.String(), "level=WARN") || !r.noted(t) {
		t.Errorf("noted: %v, said %s", r.noted(t), log.String())
	}
	if diff := cmp.Diff(allNames, r.names(t)); diff != "" {
		t.Errorf("left behind: %s", diff)
	}
}

// TestSegmentsWaitForTheirViewOnAServer checks that nothing is noted if the view may not be made, and that SEGMENTS=off works as
// before.
func TestSegmentsWaitForTheirViewOnAServer(t *testing.T) {
	for _, lacking := range []string{"dropCollection", "createCollection"} {
		r := newRuled(t)
		var log strings.Builder
		r.may(t, runs())
		if _, err := r.as(t, &log).Setup(t.Context(), definition, collection.Settings{}); err != nil {
			t.Fatal(err)
		}
		r.may(t, runs().without("events", lacking))
		for _, segments := range []collection.Segments{collection.SegmentsAuto, collection.SegmentsOn} {
			log.Reset()
			d, as := r.as(t, &log), collection.Settings{Segments: segments}
			_, err := d.Setup(t.Context(), definition, as)
			said := log.String()
			if err != nil {
				said += err.Error()
			}
			asked := segments == collection.SegmentsOn
			if mongodb.LacksRight(err) != asked || !asked && err != nil || !strings.Contains(said, "dbAdmin") || !strings.Contains(said, "MONGODB_VIEW=none") || r.noted(t) {
				t.Errorf("without %s, SEGMENTS=%s: noted: %v, said %s", lacking, segments, r.noted(t), said)
			}
			trial, err := d.Trial(t.Context(), definition, as)
			if got := lackingHere(trial); err != nil || !slices.Equal(got, []string{"collMod!"}) {
				t.Errorf("without %s, SEGMENTS=%s: a trial finds %v, %v", lacking, segments, got, err)
			}
		}
		if _, err := r.as(t, &log).Setup(t.Context(), definition, collection.Settings{}); err != nil {
			t.Errorf("without %s, SEGMENTS=off: %v", lacking, err)
		}
		if diff := cmp.Diff(allNames, r.names(t)); diff != "" {
			t.Errorf("without %s: left behind: %s", lacking, diff)
		}
		more := runs().without("events", lacking)
		more["events"] = append(more["events"], "collMod")
		r.may(t, more)
		ready, err := r.as(t, &log).Setup(t.Context(), definition, collection.Settings{Segments: collection.SegmentsAuto})
		if err != nil || !ready.Segments {
			t.Errorf("with collMod in place of %s: %v", lacking, err)
		}
	}
}

// TestARefusedExpiryIsNotNotedOnAServer checks that a user who may not change the index does not change the definition, shorter
// or longer.
func TestARefusedExpiryIsNotNotedOnAServer(t *testing.T) {
	r := newRuled(t)
	r.may(t, nil, "readWrite")
	var log strings.Builder
	d, as := r.as(t, &log), collection.Settings{}
	expiring := definition
	expiring.ExpireAfterSeconds = 3_000_000
	if _, err := d.Setup(t.Context(), expiring, as); err != nil {
		t.Fatal(err)
	}
	for _, seconds := range []int64{1_000_000, 5_000_000} {
		_, _, err := d.SetExpiry(t.Context(), seconds)
		noted, version, failed := d.Definition(t.Context())
		if !mongodb.LacksRight(err) || failed != nil || version != 1 || noted.ExpireAfterSeconds != expiring.ExpireAfterSeconds {
			t.Errorf("%d s: %v; the definition of version %d says %d s, %v", seconds, err, version, noted.ExpireAfterSeconds, failed)
		}
	}
	r.may(t, nil, "readWrite", "dbAdmin")
	if _, after, err := d.SetExpiry(t.Context(), 1_000_000); err != nil || after.ExpireAfterSeconds != 1_000_000 {
		t.Errorf("with dbAdmin: %+v, %v", after, err)
	}
}

// TestEachMissingRightIsNamedOnAServer covers the state before and after the set-up of the time series. No missing right is taken
// for an inability.
func TestEachMissingRightIsNamedOnAServer(t *testing.T) {
	loginURI(t)
	optional := map[string]bool{"events dropCollection": true}
	for on, actions := range runs() {
		for _, action := range actions {
			t.Run(on+" "+action, func(t *testing.T) {
				r := newRuled(t)
				var log strings.Builder
				less := runs().without(on, action)
				r.may(t, less)
				d, as := r.as(t, &log), collection.Settings{Segments: collection.SegmentsAuto}
				names := r.names(t)
				trial, err := d.Trial(t.Context(), definition, as)
				want := []string{action + "!"}
				if optional[on+" "+action] {
					want = nil
				}
				if got := lackingHere(trial); err != nil || !slices.Equal(got, want) {
					t.Errorf("a trial finds %v, %v; want %v", got, err, want)
				}
				if diff := cmp.Diff(names, r.names(t)); diff != "" {
					t.Errorf("the trial made something: %s", diff)
				}
				_, failed := d.Setup(t.Context(), definition, as)
				if failed != nil && !strings.Contains(failed.Error(), action) || strings.Contains(log.String(), "this MongoDB has no") {
					t.Errorf("set up: %v, said %s", failed, log.String())
				}
				if strings.Contains(strings.Join(r.names(t), " "), "waterwheel.") {
					t.Errorf("left behind: %v", r.names(t))
				}
				r.may(t, runs())
				ready, err := d.Setup(t.Context(), definition, as)
				if err != nil || !ready.Segments || !r.noted(t) {
					t.Fatalf("with all rights: %v, said %s", err, log.String())
				}
				r.may(t, less)
				log.Reset()
				trial, err = d.Trial(t.Context(), definition, as)
				if got := lackingHere(trial); err != nil || len(got) > 1 || len(got) == 1 && !strings.HasPrefix(got[0], action) {
					t.Errorf("once it is set up a trial finds %v, %v", got, err)
				}
				needed := on == ".partitions" || action == "remove" || on == ".buckets" && (action == "insert" || action == "update") || action == "find" ||
					on == ".options" && action == "insert" // each topic is noted when it is first seen
				if got := lackingHere(trial); needed && !slices.Equal(got, []string{action + "!"}) {
					t.Errorf("once it is set up a trial finds %v", got)
				}
				known := bson.D{{Key: "_id", Value: bson.D{{Key: "$nin", Value: bson.A{"options", "change", "segments"}}}}}
				n, err := r.Raw.Collection("events.options").CountDocuments(t.Context(), known)
				if err != nil || n != 0 {
					t.Errorf("%d documents were left beside the options, %v", n, err)
				}
			})
		}
	}
}

// lackingHere returns the actions that a trial lacks. Those that are due have a mark.
func lackingHere(trial collection.Trial) []string {
	all := lacking(trial)
	for i, name := range all {
		action, rest, _ := strings.Cut(name, " ")
		if strings.HasSuffix(rest, "!") {
			action += "!"
		}
		all[i] = action
	}
	return all
}
