package dlq

import "testing"

// TestStatsTellCopies: a letter of the same position is a copy; of another element, topic id or attempt it is not.
func TestStatsTellCopies(t *testing.T) {
	s := NewStats()
	for _, change := range []func(*Letter){
		func(*Letter) {},
		func(l *Letter) { l.Message = "the same record" },
		func(l *Letter) { l.Part = 3 },
		func(l *Letter) { l.TopicID[0]++ },
		func(l *Letter) { l.Offset++; l.Attempt = 2 },
		func(*Letter) {},
	} {
		l := sample()
		change(&l)
		s.Add(&Found{Letter: l})
	}
	if s.Letters != 6 || s.Copies != 2 {
		t.Errorf("%d letters, %d copies, want 6 and 2", s.Letters, s.Copies)
	}
}
