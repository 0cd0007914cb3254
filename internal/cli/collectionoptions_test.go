package cli

import (
	"errors"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/collection"
	"waterwheel/internal/mongodb/mongodbtest"
	"waterwheel/internal/rollup"
	"waterwheel/internal/timeseries"
)

// TestExpireDeletesRowsOfRollups has a time series that keeps its measurements for ever, and rows of minutes for an hour. The
// command must delete the rows that have expired.
func TestExpireDeletesRowsOfRollups(t *testing.T) {
	server := mongodbtest.Connect(t)
	with := collections{database: server.Database, series: []string{"m"}}
	of := collection.Of(server.Database, "m")
	if _, err := of.Setup(t.Context(), timeseries.Options{TimeField: "time", MetaField: "meta"}, collection.Settings{}); err != nil {
		t.Fatal(err)
	}
	p := &Program{}
	if _, err := p.planExpiries(t.Context(), with, time.Time{}); !errors.Is(err, collection.ErrNeverExpires) || !strings.Contains(err.Error(), "m: the collection keeps measurements for ever: give --before") {
		t.Errorf("without any expiry: %v", err)
	}
	levels, err := rollup.ParseLevels("1m:1h,1h")
	if err != nil {
		t.Fatal(err)
	}
	if err := of.SetupRollups(t.Context(), levels, rollup.Rules{}, collection.Settings{}); err != nil {
		t.Fatal(err)
	}
	minute, _ := levels.Level(rollup.Minute)
	now, err := server.Clock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// An index of MongoDB may delete the older document first. It looks for expired documents once a minute.
	rows := server.Raw.Collection("m_1m.buckets")
	for _, age := range []time.Duration{0, 3 * time.Hour} {
		from, _ := minute.Period(now.Add(-age).UnixMilli())
		d := rollup.Document{ID: minute.ID(bson.RawValue{}, from), From: from, Revision: 1, Rows: []rollup.Stored{{Time: from, Fields: bson.Raw{5, 0, 0, 0, 0}}}}
		if _, err := rows.InsertOne(t.Context(), d.Encode(minute.Options(timeseries.Options{TimeField: "time"}))); err != nil {
			t.Fatal(err)
		}
	}
	plans, err := p.planExpiries(t.Context(), with, time.Time{})
	if err != nil || len(plans) != 1 || plans[0].Series != "m_1m" || !plans[0].Rollup || plans[0].Selected != (collection.Amount{Buckets: 1, Measurements: 1}) {
		t.Fatalf("the plans are %+v, %v", plans, err)
	}
	var text strings.Builder
	if plans[0].print(&text); !strings.HasPrefix(text.String(), "m_1m: 1 document with 1 row of rollups from before ") {
		t.Errorf("the plan is %s", &text)
	}
	if _, err := p.deleteSelected(t.Context(), "m_1m", plans[0].selection.Delete, plans[0].Selected); err != nil {
		t.Fatal(err)
	}
	if n, err := rows.CountDocuments(t.Context(), bson.D{}); n != 1 || err != nil {
		t.Errorf("%d documents are left, want only the document that has not expired, %v", n, err)
	}
	if plans, err := p.planExpiries(t.Context(), with, now.Add(-time.Minute)); err != nil || len(plans) != 1 || plans[0].Series != "m" {
		t.Errorf("with --before the plans are %+v, %v", plans, err)
	}
}
