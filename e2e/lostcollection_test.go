package e2e_test

import (
	"strings"
	"testing"
	"time"

	"waterwheel/e2e/check"
)

// TestACollectionThatLostItsContentIsNotSetUpAgain drops the collections of a running consumer, as an empty database after an
// accident looks. The consumer ends, and neither it nor init sets the collections up again, before an operator has decided where
// the group reads.
func TestACollectionThatLostItsContentIsNotSetUpAgain(t *testing.T) {
	t.Parallel()
	s := newStream(t, 2).inBuckets()
	s.sendPlain(100, 5)
	c := s.start()
	s.awaitCommitted(c, time.Minute)
	for _, suffix := range []string{".buckets", ".partitions", ".options"} {
		if err := s.collection(suffix).Drop(within(t, time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	s.ends(within(t, 2*time.Minute), c, "has lost its content", "has committed offset")

	s.ends(within(t, time.Minute), s.start(), "has lost its content", "--reset-offsets --to-earliest")
	if code, out := s.run("init"); code == 0 || !strings.Contains(out, "has lost its content") {
		t.Errorf("init ended with code %d:\n%s", code, out)
	}
	if code, out := s.run("check"); code == 0 || !strings.Contains(out, "has lost its content") {
		t.Errorf("check ended with code %d:\n%s", code, out)
	}
	if n, err := s.collection(".options").CountDocuments(within(t, time.Minute), map[string]any{}); err != nil || n > 0 {
		t.Errorf(check.Verdict+"the options collection has %d documents, %v", n, err)
	}
	s.resetTo(false)
	s.catchUp()
	s.verify(t, 100)
}
