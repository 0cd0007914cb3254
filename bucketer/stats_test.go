package bucketer

import "testing"

func TestMetasAreDifferentSeries(t *testing.T) {
	c := New(testOptions(t))
	for i := range byte(20) {
		mustInsert(t, c, simple(int64(i), i, number(1)))
	}
	for most, want := range map[int]int{0: 0, 5: 5, 20: 20, 1000: 20} {
		seen := map[string]bool{}
		for _, meta := range c.Metas(most) {
			if key := string(byte(meta.Type)) + string(meta.Value); c.series.find([]byte(key)) == nil || seen[key] {
				t.Errorf("%q is no series, or comes twice", key)
			} else {
				seen[key] = true
			}
		}
		if len(seen) != want {
			t.Errorf("of at most %d metas there are %d, want %d", most, len(seen), want)
		}
	}
}
