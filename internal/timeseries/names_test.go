package timeseries

import (
	"strings"
	"testing"
)

func TestDatabaseNames(t *testing.T) {
	for name, ok := range map[string]bool{
		"waterwheel": true, "a-b_c9": true, "größe": true, strings.Repeat("x", 63): true, strings.Repeat("x", 64): false,
		"": false, "admin": false, "local": false, "config": false, "a.b": false, "a b": false, "a$b": false, "a/b": false, `a\b`: false,
		`a"b`: false, "a\x00b": false, "a*": false, "a<b>": false, "c:": false, "a|b": false, "a?": false,
	} {
		if err := CheckDatabaseName(name); (err == nil) != ok {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestSeriesNames(t *testing.T) {
	longest := 255 - len("db.") - len(".partitions")
	for name, ok := range map[string]bool{
		"events": true, "a.b-c": true, strings.Repeat("x", longest): true, strings.Repeat("x", longest+1): false, "": false,
		"system.events": false, "a$b": false, ".a": false, "a.": false, "a\x00b": false,
	} {
		if err := CheckSeriesName("db", name, MaxNamespace); (err == nil) != ok {
			t.Errorf("%q: %v", name, err)
		}
	}
	if err := CheckSeriesName("db", strings.Repeat("x", 230), MaxShardedNamespace); err == nil {
		t.Error("a sharded collection takes a name of 243 bytes")
	}
}
