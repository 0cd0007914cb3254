package mongodb

import (
	"testing"
	"time"
)

// TestTimeoutsOfTheURI checks that the timeouts of the URI are used, and defaults where it has none.
func TestTimeoutsOfTheURI(t *testing.T) {
	for uri, want := range map[string][2]time.Duration{
		"mongodb://h/":                        {defaultSelection, defaultConnect},
		"mongodb://h/?connectTimeoutMS=45000": {defaultSelection, 45 * time.Second},
		"mongodb://h/?serverSelectionTimeoutMS=3000&connectTimeoutMS=1500":    {3 * time.Second, 1500 * time.Millisecond},
		"mongodb://a,b/?replicaSet=rs&serverSelectionTimeoutMS=7000&tls=true": {7 * time.Second, defaultConnect},
	} {
		o, err := clientOptions(uri)
		if err != nil {
			t.Fatal(err)
		}
		if got := [2]time.Duration{*o.ServerSelectionTimeout, *o.ConnectTimeout}; got != want {
			t.Errorf("%s: %v, want %v", uri, got, want)
		}
	}
}
