package reader

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// These are answers of explain in the formats of MongoDB's servers.
const (
	explainedFind = `{"queryPlanner": {"winningPlan": {"stage": "FETCH", "inputStage": {"stage": "IXSCAN", "indexName": "meta_1"}},
		"rejectedPlans": [{"stage": "SORT", "inputStage": {"stage": "IXSCAN", "indexName": "other"}}]},
		"executionStats": {"nReturned": 2, "totalKeysExamined": 3, "totalDocsExamined": 2,
			"executionStages": {"stage": "FETCH", "nReturned": 2, "executionStats": {"totalDocsExamined": 9}}}}`
	explainedSlots = `{"explainVersion": "2", "queryPlanner": {"winningPlan": {"queryPlan": {"stage": "SORT", "inputStage": {"stage": "COLLSCAN"}},
		"slotBasedPlan": {"stages": "…"}}}, "executionStats": {"nReturned": 1, "totalKeysExamined": 0, "totalDocsExamined": {"$numberLong": "70"}}}`
	explainedPipeline = `{"stages": [{"$cursor": {"queryPlanner": {"winningPlan": {"stage": "IXSCAN", "indexName": "b"}},
		"executionStats": {"nReturned": 5, "totalKeysExamined": 6, "totalDocsExamined": 7}}}, {"$group": {"_id": "$meta"}, "nReturned": 1}]}`
	explainedShards = `{"shards": {"one": {"queryPlanner": {"winningPlan": {"stage": "IXSCAN", "indexName": "b"}},
		"executionStats": {"nReturned": 5, "totalKeysExamined": 6, "totalDocsExamined": 7}},
		"two": {"stages": [{"$cursor": {"queryPlanner": {"winningPlan": {"stage": "IXSCAN", "indexName": "a"}},
		"executionStats": {"nReturned": 50, "totalKeysExamined": 60, "totalDocsExamined": 70}}}]}}}`
)

func TestCostsAreReadFromEveryFormOfExplain(t *testing.T) {
	for name, c := range map[string]struct {
		answer string
		want   Cost
	}{
		"find":     {explainedFind, Cost{Buckets: 2, DocumentsExamined: 2, KeysExamined: 3, Indexes: []string{"meta_1"}}},
		"slots":    {explainedSlots, Cost{Buckets: 1, DocumentsExamined: 70, Scans: true, Sorts: true}},
		"pipeline": {explainedPipeline, Cost{Buckets: 5, DocumentsExamined: 7, KeysExamined: 6, Indexes: []string{"b"}}},
		"shards":   {explainedShards, Cost{Buckets: 55, DocumentsExamined: 77, KeysExamined: 66, Indexes: []string{"a", "b"}}},
	} {
		t.Run(name, func(t *testing.T) {
			var got Cost
			if err := got.add(extended(t, c.answer), nil); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
	var got Cost
	if err := got.add(extended(t, `{"queryPlanner": {"winningPlan": {}}, "ok": 1}`), nil); !errors.Is(err, ErrNoExplain) {
		t.Errorf("an answer without statistics gave %v", err)
	}
}

func TestExplainTellsOfReadingSeriesTogether(t *testing.T) {
	s, f := newFake(testOptions, "a", []int{0})
	_, other := newFake(testOptions, "b", []int{0})
	f.buckets = append(f.buckets, other.buckets...)
	f.explained = extended(t, explainedFind)
	got, err := s.Explain(t.Context(), Query{})
	one := Cost{Buckets: 2, DocumentsExamined: 2, KeysExamined: 3, Indexes: []string{"meta_1"}}
	want := Plan{Listing: &one, Series: 2, Explained: 2, Reading: one}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
	got, err = s.Explain(t.Context(), Query{Meta: bson.D{{Key: "m", Value: "a"}}})
	want = Plan{Series: 1, Explained: 1, Reading: one}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
	got, err = s.Explain(t.Context(), Query{Newest: true}) // each is queried separately
	want = Plan{Listing: &one, Series: 2, Explained: 2, Reading: Cost{Buckets: 4, DocumentsExamined: 4, KeysExamined: 6, Indexes: one.Indexes}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
	cost, err := s.ExplainFilter(t.Context(), encode(bson.D{{Key: "control.max.x", Value: 1}}))
	if diff := cmp.Diff(one, cost); diff != "" || err != nil {
		t.Error(diff, err)
	}
	f.explained = extended(t, `{"queryPlanner": {}}`)
	if _, err := s.ExplainFilter(t.Context(), encode(bson.D{})); !errors.Is(err, ErrNoExplain) {
		t.Errorf("without figures: %v", err)
	}
}

// TestExplainTellsOfSegments checks the cost of finding segments, and series that are only in segments.
func TestExplainTellsOfSegments(t *testing.T) {
	f := &fake{segments: true, explained: extended(t, explainedFind), buckets: []bson.Raw{
		bucketOf(testOptions, fact{meta: valueOf("a"), fields: bson.D{}}), segmentOf(testOptions, fact{meta: valueOf("b"), fields: bson.D{}}),
	}}
	s := newSeries("s", "db.s.buckets", testOptions, f)
	got, err := s.Explain(t.Context(), Query{Meta: bson.D{{Key: "m", Value: bson.D{{Key: "$gte", Value: "a"}}}}})
	one := Cost{Buckets: 2, DocumentsExamined: 2, KeysExamined: 3, Indexes: []string{"meta_1"}}
	want := Plan{Listing: &one, Segments: &one, Series: 2, Explained: 2, Reading: one}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
}

// TestExplainsOnAServer accepts either an explanation, or the error that the server cannot explain.
func TestExplainsOnAServer(t *testing.T) {
	s := setUp(t, connected(t), "events", testOptions, []bson.Raw{bucketOf(testOptions, fact{meta: valueOf("a"), fields: bson.D{}})})
	got, err := s.Explain(t.Context(), Query{Meta: bson.D{{Key: "m", Value: "a"}}})
	if errors.Is(err, ErrNoExplain) {
		t.Skipf("nothing to test here: %v", err)
	}
	cost, failed := s.ExplainFilter(t.Context(), encode(bson.D{{Key: "meta", Value: "a"}}))
	if failed != nil || cost.Buckets != 1 {
		t.Errorf("a filter: %+v, %v", cost, failed)
	}
	if err != nil || got.Series != 1 || got.Reading.Buckets != 1 || got.Reading.DocumentsExamined != 1 || len(got.Reading.Indexes) != 1 {
		t.Errorf("got %+v, %v", got, err)
	}
}

func extended(t *testing.T, text string) (raw bson.Raw) {
	t.Helper()
	if err := bson.UnmarshalExtJSON([]byte(text), false, &raw); err != nil {
		t.Fatal(err)
	}
	return raw
}
