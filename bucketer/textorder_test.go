package bucketer

import "testing"

// TestUpdatesKeepIndexesOfOneLength checks a server that orders the paths of a $set as text. No update may hold indexes of
// different lengths, for any distribution of measurements over flushes.
func TestUpdatesKeepIndexesOfOneLength(t *testing.T) {
	for _, textOrder := range []bool{false, true} {
		o := testOptions(t)
		o.DeltaMax, o.SetsInTextOrder = 0, textOrder
		c := New(o)
		crossed, offset := 0, int64(0)
		for flush := range 60 {
			for range 1 + flush%3 {
				mustInsert(t, c, simple(offset, 'a', number(int(offset))))
				offset++
			}
			for _, w := range finishAll(t, c, 0, Outcome{}) {
				if w.Kind == Update && digits(w.Count-1) > digits(w.Count-w.Added) {
					crossed++
				}
			}
		}
		if crossed > 0 == textOrder {
			t.Errorf("text order %v: %d updates hold indexes of different lengths", textOrder, crossed)
		}
	}
}
