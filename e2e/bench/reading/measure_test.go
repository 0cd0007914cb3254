package reading

import (
	"strings"
	"testing"
	"time"

	"waterwheel/e2e/embedded"
)

// TestEveryWayFindsWhatIsStored checks this because the time of a way of reading counts only if it finds exactly the stored
// measurements.
func TestEveryWayFindsWhatIsStored(t *testing.T) {
	server, err := embedded.StartMongo()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	figures, err := Measure(t.Context(), server.URI(), Load{Series: 20, Hours: 2, Step: 5 * time.Minute})
	if err != nil || len(figures) < 5 {
		t.Fatalf("%d figures, %v", len(figures), err)
	}
	live, err := Measure(t.Context(), server.URI(), Load{Series: 20, Hours: 1, Step: 5 * time.Minute, Flushes: 3, Rows: 3})
	if err != nil || len(live) != 3 {
		t.Fatalf("%d figures of segments, %v", len(live), err)
	}
	figures = append(figures, live...)
	for _, f := range figures {
		if f.Way != ours || f.Time <= 0 || f.CPU != nil {
			t.Errorf("%+v, though an imitation in this process has no ways of its own, and no processor time", f)
		}
	}
}

// TestTotalsComeFromRowsAndFromMeasurements checks that both ways find each window.
func TestTotalsComeFromRowsAndFromMeasurements(t *testing.T) {
	server, err := embedded.StartMongo()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	building, figures, err := MeasureTotals(t.Context(), server.URI(), Load{Series: 4, Hours: 30, Step: 5 * time.Minute})
	if err != nil || len(figures) != 6 {
		t.Fatalf("%d figures, %v", len(figures), err)
	}
	if want := int64(4 * (30*12 + 30 + 2)); building.Rows != want || building.Measurements != 4*30*12 {
		t.Errorf("%v: %d rows of %d measurements, want %d", building, building.Rows, building.Measurements, want)
	}
	if _, _, err := MeasureTotals(t.Context(), server.URI(), Load{Series: 1, Hours: 1, Step: time.Minute, Flushes: 1, Rows: 1}); err == nil {
		t.Error("segments are taken")
	}
}

func TestLoadsThatCannotBeStoredAreRefused(t *testing.T) {
	for _, l := range []Load{
		{},
		{Series: 1, Hours: 1, Step: time.Second},
		{Series: 1, Hours: 1, Step: 2 * time.Hour},
		{Hours: 1, Step: time.Minute},
		{Series: 1, Step: time.Minute},
		{Series: 1, Hours: 1, Step: time.Minute, Flushes: 61, Rows: 1},
		{Series: 1, Hours: 1, Step: time.Minute, Flushes: 5},
	} {
		if l.Validate() == nil {
			t.Errorf("%+v is taken", l)
		}
	}
	if err := (Load{Series: 10_000, Hours: 3, Step: 30 * time.Second}).Validate(); err != nil {
		t.Error(err)
	}
}

func TestTableComparesWithNative(t *testing.T) {
	cpu := func(d time.Duration) *time.Duration { return &d }
	got := Table([]Figure{
		{Query: "a", Way: Native, Time: 10 * time.Millisecond, CPU: cpu(8 * time.Millisecond)},
		{Query: "a", Way: ours, Time: 5 * time.Millisecond, CPU: cpu(16 * time.Millisecond)},
		{Query: "b", Way: ours, Time: time.Millisecond},
	}, Native)
	for _, line := range []string{"| a | reader | 16.00 ms | 5.00 ms | 2.00 | 0.50 |", "| b | reader | – | 1.00 ms | – | – |"} {
		if !strings.Contains(got, line) {
			t.Errorf("%q is not in\n%s", line, got)
		}
	}
}
