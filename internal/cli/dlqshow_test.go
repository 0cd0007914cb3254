package cli

import (
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/cli/text"
	"waterwheel/internal/measurement"
)

func TestMarkStandsUnderWhatIsWrong(t *testing.T) {
	document, err := bson.Marshal(bson.D{{Key: "a", Value: bson.D{{Key: "b", Value: int64(7)}}}})
	if err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct {
		value  string
		format measurement.Format
		path   string
		want   string
	}{
		"field":           {`{"a":{"b":1e999},"c":2}`, measurement.JSON, "a.b", "{\n  \"a\": {\n    \"b\": 1e999\n    ^^^^^^^^^^\n  },\n  \"c\": 2\n}\n"},
		"array element":   {`{"a":[1,{"x":"é","y":2}]}`, measurement.JSON, "a.1.x", "{\n  \"a\": [\n    1,\n    {\n      \"x\": \"é\",\n      ^^^^^^^^\n      \"y\": 2\n    }\n  ]\n}\n"},
		"object":          {`{"a":{"b":1}}`, measurement.JSON, "a", "{\n  \"a\": {\n  ^^^^^^\n    \"b\": 1\n  }\n}\n"},
		"missing field":   {`{"a":{"b":1}}`, measurement.JSON, "a.c", "{\n  \"a\": {\n  ^^^^^^\n    \"b\": 1\n  }\n}\n"},
		"missing on top":  {`{"a":1}`, measurement.JSON, "time", "{\n^\n  \"a\": 1\n}\n"},
		"repeated name":   {`{"a":1,"a":2}`, measurement.JSON, "a", "{\n  \"a\": 1,\n  \"a\": 2\n  ^^^^^^\n}\n"},
		"dotted name":     {`{"a.b":1}`, measurement.JSON, "a.b", "{\n  \"a.b\": 1\n  ^^^^^^^^\n}\n"},
		"no path":         {`{"a":1}`, measurement.JSON, "", "{\n  \"a\": 1\n}\n"},
		"not JSON":        {"{\"a\":1,\n\"b\": x}", measurement.JSON, "", "{\"a\":1,\n\"b\": x}\n     ^\n"},
		"ends early":      {`{"a":`, measurement.JSON, "", "{\"a\":\n    ^\n"},
		"empty":           {"", measurement.JSON, "", ""},
		"escape sequence": {"\x1b[31m red, and a good deal of text", measurement.JSON, "", "\\x1b[31m red, and a good deal of text\n^^^^\n"},
		"line":            {"cpu v=1,\r\n", measurement.Influx, "fields.v", "cpu v=1,\n"},
		"BSON":            {string(document), measurement.BSON, "a.b", "{\n  \"a\": {\n    \"b\": 7\n    ^^^^^^\n  }\n}\n"},
	}
	for name, c := range cases {
		if got := markedValue([]byte(c.value), c.format, c.path); got != c.want {
			t.Errorf("%s:\n%s\nwant:\n%s", name, got, c.want)
		}
	}
}

func TestBinaryIsDumped(t *testing.T) {
	got := markedValue([]byte(strings.Repeat("\x00\xff\x01a", 500)), measurement.JSON, "x")
	if !strings.HasPrefix(got, "00000000  00 ff 01 61 ") || !strings.Contains(got, "… 976 bytes more") {
		t.Errorf("%s", got)
	}
}

func FuzzMarkedValue(f *testing.F) {
	f.Add([]byte(`{"a":[1,{"b":"x"}]}`), "a.1.b", "json")
	f.Add([]byte("{\"a\": \x1b"), "a", "bson")
	f.Add([]byte("a b=\"\x1b\""), "a", "influx")
	f.Fuzz(func(t *testing.T, value []byte, path, format string) {
		if shown := markedValue(value, measurement.Format(format), path); strings.ContainsFunc(strings.ReplaceAll(shown, "\n", ""), text.IsControl) {
			t.Errorf("%q has control characters", shown)
		}
	})
}
