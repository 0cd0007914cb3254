package measurement

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// TestISOFormsAgreeWithTimePackage formats random times in forms of ISO 8601 that RFC 3339 lacks.
func TestISOFormsAgreeWithTimePackage(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	pick := func(list ...string) string { return list[random.IntN(len(list))] }
	for range 20000 {
		layout := pick("2006-01-02", "20060102") + pick("T", "t", " ") + pick("15:04", "15:04:05", "1504", "150405")
		if strings.HasSuffix(layout, "05") {
			layout += pick("", ".000", ",000")
		}
		layout += pick("", " ") + pick("Z07:00", "Z0700", "-07:00", "-0700")
		zone := time.FixedZone("", 900*(random.IntN(100)-50))
		text := time.UnixMilli(random.Int64N(4e12) - 1e12).In(zone).Format(layout)
		want, err := time.Parse(layout, text)
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := parseTime([]byte(text), true); !ok || got != want.UnixMilli() {
			t.Errorf("%q: %d, %t; want %d", text, got, ok, want.UnixMilli())
		}
		if got, ok := ParseTime(text); !ok || !got.Equal(want) {
			t.Errorf("%q: %v, %t; want %v", text, got, ok, want)
		}
	}
}

// FuzzTime checks that an accepted time is one moment, and is the same in its full form.
func FuzzTime(f *testing.F) {
	for _, text := range []string{"2026-03-01T12:00:00Z", "20260301T120000,5 +0200", "2026-03-01 12:00Z", "20260301", "1700000000.5"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		millis, ok := parseTime([]byte(text), true)
		if !ok {
			return
		}
		year := time.UnixMilli(millis).UTC().Year()
		if again, ok := parseRFC3339([]byte(formatMillis(millis))); (!ok || again != millis) && year >= 0 && year <= 9999 {
			t.Errorf("%q is %d, written as %s is %d, %t", text, millis, formatMillis(millis), again, ok)
		}
		if _, ok := parseTime([]byte(text+"Z"), true); ok {
			t.Errorf("%q is a time with a zone, and with another Z", text)
		}
	})
}

// TestPatternsThatCannotBeRead checks the errors about strftime patterns, with the remedy.
func TestPatternsThatCannotBeRead(t *testing.T) {
	for format, want := range map[string]string{
		"%s":                   "set unix instead",
		"%Y-%m-%d %Z":          "an abbreviated time zone",
		"%Y-%m-%d %Q":          "%Q: use only %Y %m",
		"%H:%M:%S":             "with year, month and day",
		"%Y-%m-%d %":           "ends in a percent sign",
		"%Y-%m-%d %S%f":        "write %S.%f",
		"%Y-%m-%d at 3 %H":     "means a time in a Go layout",
		"%Y-%m-%d Jan":         "means a time in a Go layout",
		"%Y-%m-%d %I:%M":       "hours up to 12 and neither AM nor PM",
		"2006-01-02 03:04:05":  "hours up to 12 and neither AM nor PM",
		"yyyy-MM-dd HH:mm:ss":  "or a strftime pattern, such as %Y-%m-%d %H:%M:%S",
		"unixms ":              "",
		"rfc339":               "did you mean rfc3339?",
		"2006-01-02 15:04 MST": "an abbreviated time zone",
	} {
		err := CheckTimeFormat(format)
		if want == "" && err == nil {
			continue
		}
		if err == nil || want == "" || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want …%s…", format, err, want)
		}
	}
}

// FuzzStrftime checks that an accepted pattern parses the times that it formats.
func FuzzStrftime(f *testing.F) {
	for _, pattern := range []string{"%Y-%m-%d %H:%M:%S.%f%z", "%d/%b/%Y:%T %:z", "%-d.%-m.%y", "%F %I:%M %p", "%%%Y%j"} {
		f.Add(pattern, int64(1700000000123))
	}
	f.Fuzz(func(t *testing.T, pattern string, millis int64) {
		if !isStrftime(pattern) || CheckTimeFormat(pattern) != nil {
			return
		}
		p := newTimeParser(pattern)
		day := time.UnixMilli(millis % 1e12).UTC().Truncate(24 * time.Hour) // within two digits of a year
		r, ok := p.parseText([]byte(day.Format(p.layout)))
		if !ok || r.millis != day.UnixMilli() {
			t.Errorf("%q is the layout %q: %v is written %q and read as %v, %t", pattern, p.layout, day, day.Format(p.layout), time.UnixMilli(r.millis).UTC(), ok)
		}
	})
}
