package words

import (
	"testing"
	"time"
)

// TestSpansAreWrittenAsTheyAreRead checks that the text is short, and that ParseSpan reads the same length of time from it.
func TestSpansAreWrittenAsTheyAreRead(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 90 * time.Second: "1m30s", time.Hour: "1h", 90 * time.Minute: "1h30m", 20 * time.Minute: "20m", 10*time.Hour + time.Second: "10h0m1s",
		24 * time.Hour: "24h", 36 * time.Hour: "36h", 48 * time.Hour: "2d", 720 * time.Hour: "30d", 250 * time.Millisecond: "250ms", -720 * time.Hour: "-720h",
	} {
		got := Span(d)
		if back, ok := ParseSpan(got); got != want || !ok || back != d {
			t.Errorf("%v: %q, want %q; read back: %v", d, got, want, back)
		}
	}
}

func TestDurationsAreWrittenShort(t *testing.T) {
	for d, want := range map[time.Duration]string{
		24 * time.Hour: "24h", time.Minute: "1m", 90 * time.Minute: "1h30m", 10 * time.Second: "10s", 100 * time.Minute: "1h40m", time.Hour + time.Second: "1h0m1s",
	} {
		if got := Duration(d); got != want {
			t.Errorf("%v is written %q, want %q", d, got, want)
		}
	}
}
