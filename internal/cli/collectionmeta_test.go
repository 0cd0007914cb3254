package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/collection"
	"waterwheel/internal/mongodb"
)

// metaShelf has one bucket of each meta. Only its Find is used.
type metaShelf struct {
	mongodb.Editable
	metas []bson.RawValue
}

// Find implements mongodb.Collection for queries for one meta.
func (m metaShelf) Find(_ context.Context, q mongodb.Query, each func(bson.Raw) error) error {
	for _, meta := range m.metas {
		if wanted := q.Filter.Lookup("meta"); !wanted.Equal(meta) {
			continue
		}
		bucket, err := bson.Marshal(bson.D{{Key: "meta", Value: meta}})
		if err != nil {
			return err
		}
		if err := each(bucket); err != nil {
			return err
		}
	}
	return nil
}

func metaValue(t *testing.T, meta any) bson.RawValue {
	t.Helper()
	document, err := bson.Marshal(bson.D{{Key: "m", Value: meta}})
	if err != nil {
		t.Fatal(err)
	}
	return bson.Raw(document).Lookup("m")
}

// TestPlanTellsWhatBecomesOne covers series that get the same meta, and series that get the meta of one that stays.
func TestPlanTellsWhatBecomesOne(t *testing.T) {
	value := func(meta string) bson.RawValue { return metaValue(t, meta) }
	open := collection.Amount{Buckets: 2, Measurements: 20}
	for name, c := range map[string]struct {
		stored  []string // metas in the collection
		all     []string // selected metas
		closed  string   // meta with a closed bucket
		changes [][2]string
		joining int
		joined  string // meta whose change has a mark
	}{
		"a new one":            {[]string{"a"}, []string{"a"}, "", [][2]string{{"a", "z"}}, 0, ""},
		"into one that stays":  {[]string{"a", "b"}, []string{"a"}, "", [][2]string{{"a", "b"}}, 1, "a"},
		"two get one":          {[]string{"a", "b"}, []string{"a", "b"}, "", [][2]string{{"a", "z"}, {"b", "z"}}, 2, "b"},
		"a chain":              {[]string{"a", "b"}, []string{"a", "b"}, "", [][2]string{{"a", "b"}, {"b", "c"}}, 0, ""},
		"into what stays shut": {[]string{"a", "b"}, []string{"a", "b"}, "b", [][2]string{{"a", "b"}, {"b", "c"}}, 1, "a"},
	} {
		t.Run(name, func(t *testing.T) {
			var shelf metaShelf
			for _, meta := range c.stored {
				shelf.metas = append(shelf.metas, value(meta))
			}
			plan := metaPlan{selection: collection.NewSelection(shelf, shelf, collection.SelectionOptions{TimeField: "time"}), repeats: true}
			for _, meta := range c.all {
				one := collection.SelectedSeries{Meta: value(meta), Open: open}
				if meta == c.closed {
					one.Closed = collection.Amount{Buckets: 1, Measurements: 7}
				}
				plan.all = append(plan.all, one)
			}
			for _, one := range c.changes {
				plan.changes = append(plan.changes, collection.MetaChange{Before: value(one[0]), After: value(one[1])})
			}
			view, err := plan.view(t.Context(), "events", &metaFlags{series: 10})
			if err != nil || view.Joining != c.joining || !view.DryRun || !view.Repeats || view.Changed.Buckets != int64(2*len(c.changes)) {
				t.Fatalf("%+v, %v", view, err)
			}
			for _, one := range view.Changes {
				if before := one.Before.StringValue(); before == c.joined && !one.Joins {
					t.Errorf("%s becomes one with another, and is not marked", before)
				}
			}
			var out bytes.Buffer
			view.print(&out)
			if said := strings.Contains(out.String(), "--closed includes them"); said != (c.closed != "") {
				t.Errorf("closed buckets are mentioned: %v in\n%s", said, out.String())
			}
			if _, err := json.Marshal(view); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestMetasAreShownAsJSON(t *testing.T) {
	for want, meta := range map[string]any{
		`{"a":1,"b":"x"}`: bson.D{{Key: "a", Value: 1}, {Key: "b", Value: "x"}}, `"x"`: "x", `null`: nil, `1.5`: 1.5, `[1,true]`: bson.A{1, true},
	} {
		if got := (metaText{metaValue(t, meta)}).String(); got != want {
			t.Errorf("%v is shown as %s, want %s", meta, got, want)
		}
	}
	if got := (metaText{}).String(); got != "(no meta)" {
		t.Errorf("none is shown as %s", got)
	}
	if got, err := json.Marshal(metaAmount{}); err != nil || strings.Contains(string(got), "meta\"") {
		t.Errorf("none is in JSON: %s, %v", got, err)
	}
}

// unsteadyEdit fails fails times, and then edits one bucket.
type unsteadyEdit struct {
	fails    int
	with     error
	runs     int
	resolved bool
}

func (u *unsteadyEdit) Run(context.Context) error {
	if u.runs++; u.runs <= u.fails {
		return u.with
	}
	return nil
}

func (u *unsteadyEdit) Resolve(context.Context) error {
	u.resolved = true
	return nil
}

func (u *unsteadyEdit) Edited() collection.Edited { return collection.Edited{} }

// TestEditsGoOnThroughOutages checks that edits do not continue after refusals and interruptions. They then report what was done.
func TestEditsGoOnThroughOutages(t *testing.T) {
	outage, refusal := &mongodb.OutageError{Operation: "x", Err: errors.New("y")}, &mongodb.RefusedError{Operation: "x"}
	for name, c := range map[string]struct {
		edit      unsteadyEdit
		interrupt bool
		runs      int
		fails     bool
	}{
		"a short outage": {unsteadyEdit{fails: 5, with: outage}, false, 6, false},
		"a long outage":  {unsteadyEdit{fails: 100, with: outage}, false, editTries, true},
		"a refusal":      {unsteadyEdit{fails: 1, with: refusal}, false, 1, true},
		"interrupted":    {unsteadyEdit{fails: 1, with: outage}, true, 1, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if c.interrupt {
				cancel()
			}
			if err := carryOut(ctx, &c.edit); (err != nil) != c.fails || c.edit.runs != c.runs || c.edit.resolved != c.fails {
				t.Errorf("%s: %v after %d runs, resolved %v", name, err, c.edit.runs, c.edit.resolved)
			}
		})
	}
}
