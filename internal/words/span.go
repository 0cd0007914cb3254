package words

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// spanForm matches a length of time as people write it: weeks and days, and then the form of Go's durations.
var spanForm = regexp.MustCompile(`^([+-]?)(?:(\d+)w)?(?:(\d+)d)?([0-9.].*)?$`)

// ParseSpan parses a length of time such as 90s, 1h30m, 7d, 2w or 1d12h, with or without a sign.
func ParseSpan(text string) (time.Duration, bool) {
	if d, err := time.ParseDuration(text); err == nil {
		return d, true
	}
	const day = 24 * time.Hour
	parts := spanForm.FindStringSubmatch(text)
	if parts == nil || parts[2]+parts[3] == "" {
		return 0, false
	}
	sign, counts, rest := parts[1], parts[2:4], parts[4]
	var d time.Duration
	for i, unit := range []time.Duration{7 * day, day} {
		if counts[i] == "" {
			continue
		}
		n, err := strconv.Atoi(counts[i])
		if err != nil || n > int(100*366*day/unit) { // at most a hundred years each, so that their sum cannot overflow
			return 0, false
		}
		d += time.Duration(n) * unit
	}
	if rest != "" {
		more, err := time.ParseDuration(rest)
		if err != nil || more > math.MaxInt64-d {
			return 0, false
		}
		d += more
	}
	if sign == "-" {
		d = -d
	}
	return d, true
}

// Span formats a length of time as people write it, and as ParseSpan reads it: 30d and 1h, not 720h0m0s and 1h0m0s.
func Span(d time.Duration) string {
	const day = 24 * time.Hour
	if d > day && d%day == 0 {
		return strconv.Itoa(int(d/day)) + "d"
	}
	return strings.NewReplacer("h0m0s", "h", "m0s", "m").Replace(d.String())
}

// ParseZone finds a time zone by its name. An empty name is UTC. The error continues a sentence that begins with the name of a flag
// or a parameter.
func ParseZone(name string) (*time.Location, error) {
	zone, err := time.LoadLocation(name)
	if err != nil {
		return nil, fmt.Errorf("is %q, and there is no such time zone: give a name of the time zone database, such as Europe/Berlin or UTC", name)
	}
	return zone, nil
}
