package curves

import (
	"time"

	"waterwheel/e2e/bench"
	"waterwheel/e2e/bench/figure"
)

// Curve is one parameter, with loads that differ in its value.
type Curve struct {
	// Name is the name of the curve's file, without Prefix.
	Name string
	// Axis is the axis of the parameter. Of is its name behind a value in a sentence.
	Axis figure.Axis
	Of   string
	// Peer drains the topics. It is bench.Discard if only the client matters, and bench.Waterwheel if the answers to look-ups
	// matter.
	Peer  bench.Peer
	Lines []Line
}

// Line is a series of loads.
type Line struct {
	Name  string
	Steps []Step
}

// Step is one value of the parameter.
type Step struct {
	X    float64
	Load bench.Load
}

// These bound the number of records and of bytes of one point. A point reads fewer records if they are large.
const (
	usualRecords = 400_000
	leastRecords = 3_000
	usualBytes   = 150e6
	// manyRecords is the number of records of each point of the series curve. The last point has one record per series.
	manyRecords = 1_000_000
	// storedRecords is the number of records in the curves that store into a database.
	storedRecords = 200_000
)

// All returns the curves. It multiplies the number of records of each point by scale, and leaves out points with fewer records
// than series.
func All(scale float64) []Curve {
	curves := []Curve{
		{Name: "series", Axis: figure.Axis{Name: "series", Log: true}, Of: "series", Peer: bench.Discard, Lines: along(bySeries,
			1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000)},
		{Name: "partitions", Axis: figure.Axis{Name: "partitions", Log: true}, Of: "partitions", Peer: bench.Discard, Lines: along(byPartitions,
			1, 2, 4, 8, 16, 32, 64)},
		{Name: "fields", Axis: figure.Axis{Name: "fields in an event", Log: true}, Of: "fields", Peer: bench.Discard, Lines: along(byFields,
			1, 2, 5, 10, 20, 50, 100, 200)},
		{Name: "event", Axis: figure.Axis{Name: "bytes of an event of one number and a text", Log: true}, Of: "bytes", Peer: bench.Discard, Lines: along(byBytes,
			100, 300, 1_000, 3_000, 10_000, 30_000, 100_000)},
		{Name: "late", Axis: figure.Axis{Name: "% of the measurements that come 1 to 60 minutes late"}, Of: "% late", Peer: bench.Waterwheel, Lines: along(byLate,
			0, 1, 5, 10, 20, 35, 50)},
		{Name: "order", Axis: figure.Axis{Name: "hours that a series' measurements are spread over", Log: true}, Of: "hours", Peer: bench.Waterwheel, Lines: []Line{
			{"in order of time", steps(byHours(bench.InOrder), hours)},
			{"shuffled", steps(byHours(bench.Shuffled), hours)},
		}},
	}
	for i := range curves {
		for j := range curves[i].Lines {
			curves[i].Lines[j].Steps = scaled(curves[i].Lines[j].Steps, scale)
		}
	}
	return curves
}

// hours are the durations over which the measurements of a series are spread. A bucket covers one hour.
var hours = []float64{0.1, 0.3, 1, 3, 10, 30, 100}

func along(load func(x float64) bench.Load, values ...float64) []Line {
	return []Line{{Steps: steps(load, values)}}
}

func steps(load func(x float64) bench.Load, values []float64) []Step {
	made := make([]Step, len(values))
	for i, x := range values {
		made[i] = Step{x, load(x)}
	}
	return made
}

// scaled multiplies the number of records, and drops steps with fewer records than series.
func scaled(steps []Step, scale float64) []Step {
	var kept []Step
	for _, s := range steps {
		s.Load.Records = max(1, int(float64(s.Load.Records)*scale))
		if s.Load.Series <= s.Load.Records {
			kept = append(kept, s)
		}
	}
	return kept
}

func base(records int) bench.Load {
	l := bench.Base()
	l.Records = records
	return l
}

func bySeries(x float64) bench.Load {
	l := base(manyRecords)
	l.Series = int(x)
	return l
}

func byPartitions(x float64) bench.Load {
	l := base(usualRecords)
	l.Partitions = int(x)
	return l
}

func byFields(x float64) bench.Load {
	l := base(usualRecords)
	l.Series, l.Fields = 100, int(x)
	return bounded(l)
}

func byBytes(x float64) bench.Load {
	l := base(usualRecords)
	l.Series, l.Fields, l.EventBytes = 100, 1, int(x)
	return bounded(l)
}

// bounded reduces the number of records if they are large.
func bounded(l bench.Load) bench.Load {
	event := len(bench.NewMaker(l).Append(nil, 0))
	l.Records = min(l.Records, max(leastRecords, int(usualBytes/float64(event))))
	return l
}

func byLate(x float64) bench.Load {
	l := base(storedRecords)
	l.Series, l.Late = 1_000, x/100
	return l
}

func byHours(order string) func(x float64) bench.Load {
	return func(x float64) bench.Load {
		l := base(storedRecords)
		l.Series, l.Order = 1_000, order
		each := l.Records / l.Series
		l.Step = (time.Duration(x*float64(time.Hour)) / time.Duration(each)).Truncate(time.Millisecond)
		return l
	}
}
