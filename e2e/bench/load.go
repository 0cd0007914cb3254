package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"waterwheel/e2e/check"
	"waterwheel/e2e/harness"
)

// These are orders of the measurements of one series in the log.
const (
	InOrder  = "in"       // ordered by time
	Shuffled = "shuffled" // in an order independent of their times
)

// Load describes the content of a topic. Each record is one measurement, a JSON object with a time, a meta and numbers.
type Load struct {
	Records int
	// Series is the number of series, which take turns. Record i belongs to series i modulo Series.
	Series int
	// Fields is the number of numbers in an event.
	Fields int
	// EventBytes is the minimum length of an event. A text extends shorter events. Zero means no minimum.
	EventBytes int
	// Order is InOrder or Shuffled.
	Order string
	// Late is the share of measurements, from 0 to 1, that come a minute to an hour after their time.
	Late float64
	// Step is the time between two measurements of a series, at least a millisecond. Start is the time of the first ones.
	Step  time.Duration
	Start time.Time
	// Partitions is the number of partitions of the topic. All records of a series are in one partition.
	Partitions int
}

// Base returns the default load of figures, with 10,000 series, five fields and 156 bytes per event.
func Base() Load {
	return Load{
		Records: 1_000_000, Series: 10_000, Fields: 5, Order: InOrder, Step: time.Second,
		Start: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), Partitions: 4,
	}
}

// maxEventBytes fits into a batch of the broker's default limit of 1 MB.
const maxEventBytes = 900 << 10

// Validate returns an error for everything that is wrong with the load.
func (l Load) Validate() error {
	var wrong []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			wrong = append(wrong, fmt.Errorf(format, args...))
		}
	}
	check(l.Records >= 1, "%d records: at least one is needed", l.Records)
	check(l.Series >= 1, "%d series: at least one is needed", l.Series)
	check(l.Fields >= 1 && l.Fields <= 10_000, "%d fields, not 1 to 10,000", l.Fields)
	check(l.EventBytes >= 0 && l.EventBytes <= maxEventBytes, "events of %d bytes, not 0 to %d", l.EventBytes, maxEventBytes)
	check(l.Order == InOrder || l.Order == Shuffled, "order %q, not %s or %s", l.Order, InOrder, Shuffled)
	check(l.Late >= 0 && l.Late <= 1, "a late share of %g, not 0 to 1", l.Late)
	check(l.Step >= time.Millisecond, "a step of %s, not 1ms or more", l.Step)
	check(l.Partitions >= 1 && l.Partitions <= 1000, "%d partitions, not 1 to 1,000", l.Partitions)
	return errors.Join(wrong...)
}

// Maker makes the events of a load. Equal loads make equal events. It may be used by several goroutines.
type Maker struct {
	load  Load
	names []string
	steps int // number of measurements of each series
	text  string
}

// firstNames are the names of the first fields. Further fields are numbered.
var firstNames = []string{"temperature", "humidity", "pressure", "battery", "signal"}

// NewMaker returns the maker of a load's events.
func NewMaker(l Load) *Maker {
	m := &Maker{load: l, steps: (l.Records + l.Series - 1) / l.Series, text: text(l.EventBytes)}
	for i := range l.Fields {
		if i < len(firstNames) {
			m.names = append(m.names, firstNames[i])
		} else {
			m.names = append(m.names, "field_"+strconv.Itoa(i))
		}
	}
	return m
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

// stride is a prime, so that its multiples modulo a smaller number are all numbers below it, far from each other.
const stride = 2_654_435_761

// Time returns the time of record i's measurement.
func (m *Maker) Time(i int) time.Time {
	series, step := i%m.load.Series, i/m.load.Series
	if m.load.Order == Shuffled {
		step = (step*stride + series) % m.steps
	}
	at := m.load.Start.Add(time.Duration(step)*m.load.Step + time.Duration(mix(uint64(series))%1000)*time.Millisecond)
	if chance := mix(uint64(i) + 1<<40); float64(chance>>11)/(1<<53) < m.load.Late {
		at = at.Add(-time.Minute - time.Duration(mix(chance)%3540)*time.Second)
	}
	return at
}

// Append appends record i of the load as JSON.
func (m *Maker) Append(dst []byte, i int) []byte {
	return m.AppendAt(dst, sensor(m.Series(i)), m.Series(i), i, m.Time(i))
}

// AppendAt appends an event of a series at any time. serial determines its values.
func (m *Maker) AppendAt(dst []byte, name string, series, serial int, at time.Time) []byte {
	from := len(dst)
	dst = append(dst, `{"time":"`...)
	dst = at.UTC().AppendFormat(dst, "2006-01-02T15:04:05.000Z07:00")
	dst = append(append(append(dst, `","meta":{"sensor":"`...), name...), `"}`...)
	for n, field := range m.names {
		dst = append(append(append(dst, `,"`...), field...), `":`...)
		dst = strconv.AppendFloat(dst, value(series, serial, n), 'f', 2, 64)
	}
	const frame = len(`,"text":""}`)
	if missing := m.load.EventBytes - (len(dst) - from) - frame; missing > 0 {
		dst = append(append(append(dst, `,"text":"`...), m.text[:missing]...), '"')
	}
	return append(dst, '}')
}

// sensor returns the name of a series, which is also the key of its records.
func sensor(series int) string { return fmt.Sprintf("sensor-%07d", series) }

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

// Topic is a topic that holds a load.
type Topic struct {
	Name string
	Load Load
	// Bytes is the size of all values.
	Bytes int64
	// Ends are the ends of the log, by partition.
	Ends []int64
}

// Fill creates a topic and writes a load into it. The caller deletes the topic.
func Fill(ctx context.Context, servers *harness.Servers, l Load) (Topic, error) {
	t := Topic{Name: fmt.Sprintf("bench-%x", time.Now().UnixNano()), Load: l}
	settings := []string{"retention.ms", "-1", "max.message.bytes", fmt.Sprint(2 * maxEventBytes)}
	if err := servers.CreateTopic(ctx, t.Name, l.Partitions, settings...); err != nil {
		return Topic{}, err
	}
	if err := t.fill(ctx, servers.Brokers); err != nil {
		return Topic{}, errors.Join(fmt.Errorf("filling topic %s: %w", t.Name, err), servers.DeleteTopics(context.WithoutCancel(ctx), t.Name))
	}
	return t, nil
}

// fill writes all records, and compares the ends of the log with their number.
func (t *Topic) fill(ctx context.Context, brokers string) error {
	producer, err := newProducer(brokers, t.Name)
	if err != nil {
		return err
	}
	defer producer.Close()
	writing, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	maker := NewMaker(t.Load)
	for i := 0; i < t.Load.Records && writing.Err() == nil; i++ {
		series := maker.Series(i)
		value := maker.Append(make([]byte, 0, max(t.Load.EventBytes, 192)), i)
		t.Bytes += int64(len(value))
		producer.Produce(writing, &kgo.Record{Partition: maker.Partition(series), Key: []byte(sensor(series)), Value: value}, func(_ *kgo.Record, err error) {
			if err != nil {
				fail(err)
			}
		})
	}
	if err := producer.Flush(writing); err != nil || writing.Err() != nil {
		return errors.Join(context.Cause(writing), err)
	}
	kafka, err := check.DialKafka(brokers)
	if err != nil {
		return err
	}
	defer kafka.Close()
	if t.Ends, err = kafka.Ends(ctx, check.Topic{Name: t.Name, Partitions: int32(t.Load.Partitions)}); err != nil {
		return err
	}
	sum := int64(0)
	for _, end := range t.Ends {
		sum += end
	}
	if sum != int64(t.Load.Records) {
		return fmt.Errorf("the partitions have %d records, not %d", sum, t.Load.Records)
	}
	return nil
}

// These bound the records that wait to be sent. They allow full batches to all partitions.
const (
	maxBuffered      = 100_000
	maxBufferedBytes = 128 << 20
)

// newProducer returns a producer that writes each record to the partition it names, without compression. The caller closes it.
func newProducer(brokers, topic string) (*kgo.Client, error) {
	client, err := kgo.NewClient(
		kgo.SeedBrokers(strings.Split(brokers, ",")...), kgo.DefaultProduceTopic(topic), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.ProducerLinger(20*time.Millisecond),
		kgo.MaxBufferedRecords(maxBuffered), kgo.MaxBufferedBytes(maxBufferedBytes),
	)
	if err != nil {
		return nil, fmt.Errorf("making a producer to %s: %w", topic, err)
	}
	return client, nil
}
