package bench

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// Maker makes the events of a load. Equal loads make equal events. It may be used by several goroutines.
type Maker struct {
	load   Load
	names  []string
	steps  int // number of measurements of each series
	stride int // step width through the steps of a series, for shuffled loads
	text   string
}

// firstNames are the names of the first fields. Further fields are numbered.
var firstNames = []string{"temperature", "humidity", "pressure", "battery", "signal"}

// NewMaker returns the maker of a load's events.
func NewMaker(l Load) *Maker {
	m := &Maker{load: l, steps: (l.Records + l.Series - 1) / l.Series}
	for i := range l.Fields {
		if i < len(firstNames) {
			m.names = append(m.names, firstNames[i])
		} else {
			m.names = append(m.names, "field_"+strconv.Itoa(i))
		}
	}
	m.stride = coprime(m.steps)
	m.text = text(l.EventBytes)
	return m
}

// coprime returns a number near n times the golden ratio that has no divisor in common with n. Its multiples modulo n are all
// numbers below n, and consecutive ones are far apart.
func coprime(n int) int {
	divisor := func(a, b int) int {
		for b != 0 {
			a, b = b, a%b
		}
		return a
	}
	for s := max(1, int(float64(n)*0.618)); ; s++ {
		if divisor(s, n) == 1 {
			return s
		}
	}
}

// text returns n bytes of words that do not compress well.
func text(n int) string {
	var b strings.Builder
	for i := uint64(0); b.Len() < n; i++ {
		b.WriteString(strconv.FormatUint(mix(i), 36))
		b.WriteByte(' ')
	}
	return b.String()[:n]
}

// Series returns the series of record i.
func (m *Maker) Series(i int) int { return i % m.load.Series }

// Partition returns the partition of all records of a series.
func (m *Maker) Partition(series int) int32 { return int32(series % m.load.Partitions) }

// Time returns the time of record i's measurement.
func (m *Maker) Time(i int) time.Time {
	series, step := i%m.load.Series, i/m.load.Series
	if m.load.Order == Shuffled {
		step = (step*m.stride + series) % m.steps
	}
	at := m.load.Start.Add(time.Duration(step)*m.load.Step + time.Duration(mix(uint64(series))%1000)*time.Millisecond)
	if chance := mix(uint64(i) + 1<<40); float64(chance>>11)/(1<<53) < m.load.Late {
		at = at.Add(-time.Minute - time.Duration(mix(chance)%3540)*time.Second)
	}
	return at
}

// Append appends record i of the load as JSON.
func (m *Maker) Append(dst []byte, i int) []byte { return m.AppendAt(dst, m.Series(i), i, m.Time(i)) }

// AppendAt appends an event of a series at any time. serial determines its values.
func (m *Maker) AppendAt(dst []byte, series, serial int, at time.Time) []byte {
	from := len(dst)
	dst = append(dst, `{"time":"`...)
	dst = at.UTC().AppendFormat(dst, "2006-01-02T15:04:05.000Z07:00")
	dst = append(dst, `","meta":{"sensor":"`...)
	dst = appendSensor(dst, series)
	dst = append(dst, `"}`...)
	for n, name := range m.names {
		dst = append(dst, `,"`...)
		dst = append(dst, name...)
		dst = append(dst, `":`...)
		dst = strconv.AppendFloat(dst, value(series, serial, n), 'f', 2, 64)
	}
	const frame = len(`,"text":""}`)
	if missing := m.load.EventBytes - (len(dst) - from) - frame; missing > 0 {
		dst = append(dst, `,"text":"`...)
		dst = append(dst, m.text[:missing]...)
		dst = append(dst, '"')
	}
	return append(dst, '}')
}

// appendSensor appends the name of a series, which is also the key of its records.
func appendSensor(dst []byte, series int) []byte {
	name := strconv.Itoa(series)
	dst = append(dst, "sensor-"...)
	for range 7 - len(name) {
		dst = append(dst, '0')
	}
	return append(dst, name...)
}

// value returns a number with two decimals near a level that depends on series and field.
func value(series, serial, field int) float64 {
	level := mix(uint64(series)<<16+uint64(field)) % 9000
	move := mix(uint64(serial)<<16+uint64(field)) % 500
	return math.Round(float64(1000+level+move)) / 100
}

// mix turns consecutive numbers into pseudo-random ones (the last step of splitmix64).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
