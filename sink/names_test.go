package sink

import (
	"strings"
	"testing"
)

func TestDatabaseNames(t *testing.T) {
	for name, ok := range map[string]bool{
		"waterwheel": true, "a-b_c9": true, "größe": true, strings.Repeat("x", 63): true, strings.Repeat("x", 64): false,
		"": false, "admin": false, "local": false, "config": false, "a.b": false, "a b": false, "a$b": false, "a/b": false, `a\b`: false,
		`a"b`: false, "a\x00b": false,
	} {
		err := CheckDatabaseName(name)
		if (err == nil) != ok {
			t.Errorf("%q: %v", name, err)
		}
		if err != nil && !strings.Contains(err.Error(), "MONGODB_DATABASE") {
			t.Errorf("%q: no way out in %q", name, err)
		}
	}
}

func TestSeriesNames(t *testing.T) {
	longest := 255 - len("db.") - len(".partitions")
	for name, ok := range map[string]bool{
		"events": true, "a.b-c": true, strings.Repeat("x", longest): true, strings.Repeat("x", longest+1): false, "": false,
		"system.events": false, "a$b": false, ".a": false, "a.": false, "a\x00b": false,
	} {
		err := CheckSeriesName("db", name)
		if (err == nil) != ok {
			t.Errorf("%q: %v", name, err)
		}
		if err != nil && !strings.Contains(err.Error(), "MONGODB_COLLECTION") {
			t.Errorf("%q: no way out in %q", name, err)
		}
	}
	if err := checkSeriesName("db", strings.Repeat("x", 230), maxShardedNamespace); err == nil {
		t.Error("a sharded collection takes a name of 243 bytes")
	}
}

func TestURIDatabase(t *testing.T) {
	for uri, want := range map[string]string{
		"mongodb://h": "", "mongodb://h/": "", "mongodb://h/db": "db", "mongodb://u:p@h:1,i:2/db?x=/y": "db",
		"mongodb+srv://h/a%2Db": "a-b", "mongodb://%2Ftmp%2Fs.sock/db": "db", "mongodb://h/?appName=x": "", "nonsense": "",
	} {
		if got := uriDatabase(uri); got != want {
			t.Errorf("%s: %q, want %q", uri, got, want)
		}
	}
}

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
