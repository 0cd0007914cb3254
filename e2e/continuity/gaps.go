package continuity

import (
	"fmt"
	"slices"
	"time"
)

// longestGap returns the longest time between two consecutive writes that overlaps the interval from..to. writes are in order.
// The last gap counts until to.
func longestGap(writes []time.Time, from, to time.Time) time.Duration {
	last, longest := from, time.Duration(0)
	for _, at := range writes {
		if !at.Before(to) {
			break
		}
		if at.After(from) {
			longest = max(longest, at.Sub(last))
		}
		last = at
	}
	return max(longest, to.Sub(last))
}

// Gap is the longest time without a durable write, over some partitions.
type Gap struct {
	// Partitions is the number of these partitions. Partition has the longest gap.
	Partitions int           `json:"partitions"`
	Partition  int32         `json:"partition"`
	Longest    time.Duration `json:"longest_ns"`
	// Least is the longest gap of the partition that did best.
	Least time.Duration `json:"least_ns"`
}

// gapOf returns the gap of the wanted partitions. writes are by partition.
func gapOf(writes [][]time.Time, from, to time.Time, wanted func(partition int32) bool) (g Gap) {
	for p, of := range writes {
		if !wanted(int32(p)) {
			continue
		}
		longest := longestGap(of, from, to)
		if g.Partitions++; g.Partitions == 1 || longest < g.Least {
			g.Least = longest
		}
		if longest > g.Longest {
			g.Longest, g.Partition = longest, int32(p)
		}
	}
	return g
}

// String returns the least and the longest gap in seconds, and the number of partitions.
func (g Gap) String() string {
	if g.Partitions == 0 {
		return "–"
	}
	return fmt.Sprintf("%.1f–%.1f (%d)", g.Least.Seconds(), g.Longest.Seconds(), g.Partitions)
}

// Freshness is the age of measurements when they were first seen to be stored.
type Freshness struct {
	Samples int           `json:"samples"`
	P50     time.Duration `json:"p50_ns"`
	P99     time.Duration `json:"p99_ns"`
	Max     time.Duration `json:"max_ns"`
}

// sample is the time when a measurement was first seen, and its age then.
type sample struct {
	seen time.Time
	age  time.Duration
}

// freshnessOf returns the freshness of the measurements first seen between from and to.
func freshnessOf(samples []sample, from, to time.Time) Freshness {
	var ages []time.Duration
	for _, s := range samples {
		if s.seen.After(from) && !s.seen.After(to) {
			ages = append(ages, s.age)
		}
	}
	f := Freshness{Samples: len(ages)}
	if f.Samples == 0 {
		return f
	}
	slices.Sort(ages)
	at := func(share float64) time.Duration { return ages[int(share*float64(len(ages)-1)+0.5)] }
	f.P50, f.P99, f.Max = at(0.5), at(0.99), at(1)
	return f
}

// String returns the freshness in seconds.
func (f Freshness) String() string {
	if f.Samples == 0 {
		return "–"
	}
	return fmt.Sprintf("%.1f / %.1f / %.1f", f.P50.Seconds(), f.P99.Seconds(), f.Max.Seconds())
}

// Looking is the precision of the figures. It is given by the time between two looks.
type Looking struct {
	Looks int           `json:"looks"`
	Mean  time.Duration `json:"mean_ns"`
	Most  time.Duration `json:"most_ns"`
}

func lookingOf(looks []time.Time, from, to time.Time) Looking {
	l := Looking{Most: longestGap(looks, from, to)}
	for _, at := range looks {
		if at.After(from) && !at.After(to) {
			l.Looks++
		}
	}
	l.Mean = to.Sub(from) / time.Duration(max(1, l.Looks))
	return l
}

// coarse is the divisor for the longest time between two looks. It must be at most the undisturbed gap divided by coarse.
const coarse = 5

// String returns the mean and the longest time between looks, in milliseconds.
func (l Looking) String() string {
	return fmt.Sprintf("%d / %d", l.Mean.Milliseconds(), l.Most.Milliseconds())
}
