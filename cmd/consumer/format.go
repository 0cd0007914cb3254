package main

import (
	"fmt"
	"strconv"
	"time"
)

// formatBytes writes a size with one decimal, as a person reads it.
func formatBytes(n int64) string {
	const step = 1024
	value, units := float64(n), []string{"B", "KiB", "MiB", "GiB", "TiB"}
	i := 0
	for value >= step && i < len(units)-1 {
		value /= step
		i++
	}
	if i == 0 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %s", value, units[i])
}

// formatAgo writes how long before now something was; never for the zero time.
func formatAgo(now, then time.Time) string {
	if then.IsZero() {
		return "never"
	}
	return now.Sub(then).Round(100*time.Millisecond).String() + " ago"
}

// formatSeconds writes a duration that may not be known.
func formatSeconds(seconds *float64) string {
	if seconds == nil {
		return "–"
	}
	return time.Duration(*seconds * float64(time.Second)).Round(100 * time.Millisecond).String()
}

// formatOffset writes an offset, or a number of records, that may not be known.
func formatOffset(n *int64) string {
	if n == nil {
		return "–"
	}
	return strconv.FormatInt(*n, 10)
}
