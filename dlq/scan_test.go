package dlq

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"waterwheel/internal/record"
)

func TestFilterSelects(t *testing.T) {
	l := sample() // not_json of events, 2023-11-14T22:13:20.123Z
	at := time.UnixMilli(l.Timestamp)
	cases := map[string]struct {
		filter Filter
		want   bool
	}{
		"all":          {Filter{}, true},
		"reason":       {Filter{Reasons: []string{"bad_time", "not_json"}}, true},
		"other reason": {Filter{Reasons: []string{"bad_time"}}, false},
		"topic":        {Filter{Topics: []string{"events"}}, true},
		"other topic":  {Filter{Topics: []string{"orders"}}, false},
		"from then":    {Filter{From: at}, true},
		"from later":   {Filter{From: at.Add(time.Millisecond)}, false},
		"to later":     {Filter{To: at.Add(time.Millisecond)}, true},
		"to then":      {Filter{To: at}, false},
		"one of two":   {Filter{Reasons: []string{"not_json"}, Topics: []string{"orders"}}, false},
	}
	for name, c := range cases {
		if got := c.filter.Selects(&l); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestStatsCountByReasonAndHour(t *testing.T) {
	s := NewStats()
	for i, reason := range []string{"not_json", "bad_time", "not_json"} {
		l := sample()
		l.Reason, l.Timestamp, l.Offset = reason, int64(3600_000*(10-i)+1), int64(i)
		s.Add(&Found{Letter: l})
	}
	s.Add(&Found{Err: errNotLetter})
	hour := func(n int64) time.Time { return time.Unix(3600*n, 0).UTC() }
	want := &Stats{
		Letters: 3, Others: 1,
		Reasons: map[string]int64{"not_json": 2, "bad_time": 1}, Topics: map[string]int64{"events": 3},
		Hours:  map[time.Time]map[string]int64{hour(8): {"not_json": 1}, hour(9): {"bad_time": 1}, hour(10): {"not_json": 1}},
		Oldest: time.UnixMilli(8*3600_000 + 1).UTC(), Newest: time.UnixMilli(10*3600_000 + 1).UTC(),
	}
	if diff := cmp.Diff(want, s, cmpopts.IgnoreUnexported(Stats{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestStatsAreJSONWhateverTheTimestamps checks this because a producer that counts in microseconds writes years that JSON has no
// text for.
func TestStatsAreJSONWhateverTheTimestamps(t *testing.T) {
	s := NewStats()
	for _, timestamp := range []int64{1772366400250000, math.MinInt64, math.MaxInt64} {
		l := sample()
		l.Timestamp = timestamp
		s.Add(&Found{Letter: l})
	}
	if text, err := json.Marshal(s); err != nil || !strings.Contains(string(text), `"9999-12-31T23:59:59.999Z"`) {
		t.Errorf("%s, %v", text, err)
	}
}

// TestStatsTellCopies checks that a letter with the same position is a copy, and that one with another element or topic id is
// not.
func TestStatsTellCopies(t *testing.T) {
	s := NewStats()
	for _, change := range []func(*record.DeadLetter){
		func(*record.DeadLetter) {},
		func(l *record.DeadLetter) { l.Message = "the same record" },
		func(l *record.DeadLetter) { l.Part = 3 },
		func(l *record.DeadLetter) { l.TopicID[0]++ },
		func(l *record.DeadLetter) { l.Offset++ },
		func(*record.DeadLetter) {},
	} {
		l := sample()
		change(&l)
		s.Add(&Found{Letter: l})
	}
	if s.Letters != 6 || s.Copies != 2 {
		t.Errorf("%d letters, %d copies, want 6 and 2", s.Letters, s.Copies)
	}
}

func TestPositionsTellPartsAndTopicsApart(t *testing.T) {
	p := NewPositions()
	whole := sample()
	part, other, recreated, null, empty := whole, whole, whole, whole, whole
	part.Part, other.Topic, recreated.TopicID = 0, "orders", [16]byte{9}
	null.Key, empty.Key = nil, []byte{}
	for _, l := range []record.DeadLetter{whole, part, other, recreated, null, empty} {
		if p.Has(&l) || !p.Add(&l) || p.Add(&l) || !p.Has(&l) {
			t.Errorf("%s %d part %d is not told apart", l.Topic, l.Offset, l.Part)
		}
	}
}
