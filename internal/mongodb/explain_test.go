package mongodb

import (
	"strings"
	"testing"
)

func TestRedact(t *testing.T) {
	const uri = "mongodb://user:s%40cret@host/db"
	for _, text := range []string{uri, "bad password s%40cret", "tried user:s%40cret", "plain s@cret"} {
		if got := redact(text, uri); strings.Contains(got, "cret") {
			t.Errorf("%q", got)
		}
	}
	if got := redact("no server", "mongodb://host/db"); got != "no server" {
		t.Errorf("%q", got)
	}
}
