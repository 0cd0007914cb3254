package pipeline

import "testing"

func TestCommitWaitsForTheSmallestOpenOffset(t *testing.T) {
	l := offsetTracker{next: 100}
	expect := func(want, oldest int64, pending bool) {
		t.Helper()
		if got := l.committable(oldest, pending); got != want {
			t.Fatalf("committable is %d, want %d", got, want)
		}
	}
	expect(100, 0, false) // nothing open: the fetch position
	expect(70, 70, true)
	l.open(60)
	l.open(80)
	l.open(40) // a record read again for its letter comes late
	expect(40, 70, true)
	l.acknowledge(2)
	expect(40, 70, true)
	l.acknowledge(1)
	expect(70, 70, true)
	expect(100, 0, false)
}
