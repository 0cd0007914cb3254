package record

import "testing"

func TestPlaces(t *testing.T) {
	place := Place{Partition{"a.b-c", 3}, 182}
	if got, err := ParsePlace(place.String()); got != place || err != nil {
		t.Errorf("%v %v", got, err)
	}
	for _, text := range []string{"", "a", "a/1", "/1/2", "a/x/1", "a/1/x", "a/-1/1", "a/99999999999/1", "a/b/1/2"} {
		if _, err := ParsePlace(text); err == nil {
			t.Errorf("%q was taken", text)
		}
	}
}
