package verify_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"waterwheel/internal/claim"
	"waterwheel/internal/verify"
)

// TestLostRecordsAreCounted counts the records that retention deleted before they were read. Those that a former owner had read
// and stored without a commit are not lost.
func TestLostRecordsAreCounted(t *testing.T) {
	w := newWorld(t)
	w.fill(40) // offsets 100 to 139, all stored
	for range 20 {
		w.append(`{"time":1700000000000,"meta":"a","x":1}`) // 140 to 159, not stored
	}
	w.produce(w.event(3)) // 160
	w.flush()
	w.first = 160
	noted := []claim.Lost{{From: 130, To: 145}, {From: 144, To: 155}, {From: 150, To: 160}}
	for name, window := range map[string]int64{"in one window": 0, "in small windows": 7} {
		v, err := verify.New(verify.Options{
			Collection: w.options, Decoder: w.newDecoder(), Log: w, Buckets: w, DeadLetters: &w.deadLetters, Claims: w,
			Now: func() int64 { return noon + 1_000_000 }, Window: window,
		})
		if err != nil {
			t.Fatal(err)
		}
		r, err := v.Partition(t.Context(), verify.Range{Source: w.source, From: 160, To: 161, Lost: noted})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(verify.Lost{Count: 20, First: []verify.LostRange{{From: 140, To: 160}}}, r.Lost); diff != "" || !r.Wrong() {
			t.Errorf("%s: wrong %v (-want +got):\n%s", name, r.Wrong(), diff)
		}
		if r.Findings.Wrong() || r.StoredOnce != 1 {
			t.Errorf("%s: of the log %+v", name, r.Findings)
		}
		r, err = v.Partition(t.Context(), verify.Range{Source: w.source, From: 160, To: 161, Lost: []claim.Lost{{From: 100, To: 140}}})
		if err != nil || r.Lost.Count != 0 || r.Wrong() {
			t.Errorf("%s: of stored offsets %+v are lost, %v", name, r.Lost, err)
		}
	}
}
