package continuity

import (
	"fmt"
	"slices"
	"time"
)

// longestGap is the longest time between two writes, given in their order, of which a part lies between two moments. The last one
// counts until the second moment.
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

// Gap is the longest time that any of some partitions had no durable write.
type Gap struct {
	// Partitions is the number of these partitions, and Partition stood still for longest.
	Partitions int           `json:"partitions"`
	Partition  int32         `json:"partition"`
	Longest    time.Duration `json:"longest_ns"`
	// Least is the longest time of the partition that did best.
	Least time.Duration `json:"least_ns"`
}

// gapOf looks at those of the partitions that are wanted; writes are by partition.
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

// String is the longest gap in seconds, and of how many partitions it is.
func (g Gap) String() string {
	if g.Partitions == 0 {
		return "–"
	}
	return fmt.Sprintf("%.1f–%.1f (%d)", g.Least.Seconds(), g.Longest.Seconds(), g.Partitions)
}

// Freshness is how old measurements were when they were first seen to be stored.
type Freshness struct {
	Samples int           `json:"samples"`
	P50     time.Duration `json:"p50_ns"`
	P99     time.Duration `json:"p99_ns"`
	Max     time.Duration `json:"max_ns"`
}

// sample is a measurement that was seen, and its age then.
type sample struct {
	seen time.Time
	age  time.Duration
}

// freshnessOf is the freshness of what was first seen between two moments.
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

// String is the freshness in seconds.
func (f Freshness) String() string {
	if f.Samples == 0 {
		return "–"
	}
	return fmt.Sprintf("%.1f / %.1f / %.1f", f.P50.Seconds(), f.P99.Seconds(), f.Max.Seconds())
}

// Looking is how exactly the figures are known: the time from one look to the next.
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

// coarse is the share of an undisturbed gap that no two looks may be apart by.
const coarse = 5

// String is the mean and the longest time between looks, in milliseconds.
func (l Looking) String() string {
	return fmt.Sprintf("%d / %d", l.Mean.Milliseconds(), l.Most.Milliseconds())
}
