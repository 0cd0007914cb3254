package main

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"time"

	"github.com/shirou/gopsutil/v4/cpu"
	"github.com/shirou/gopsutil/v4/disk"
	"github.com/shirou/gopsutil/v4/load"
	"github.com/shirou/gopsutil/v4/mem"
	"github.com/shirou/gopsutil/v4/net"
	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/e2e/events"
)

// sensorCount is the number of simulated sensors.
const sensorCount = 30

// sensors simulates devices in the field. Their readings arrive late and out of order, and some events are broken.
type sensors struct {
	random *rand.Rand
	turn   int
	held   []held // readings that have not arrived yet
}

// held is a reading that arrives later.
type held struct {
	due   time.Time
	event events.Event
}

func newSensors() *sensors {
	return &sensors{random: rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 2))}
}

// measure makes a reading of every other sensor, and returns the events that arrive now, in random order.
func (s *sensors) measure(now time.Time) []events.Event {
	s.turn++
	var arrived []events.Event
	for i := s.turn % 2; i < sensorCount; i += 2 {
		e := s.reading(i, now.Add(-time.Duration(s.random.IntN(200))*time.Millisecond))
		switch luck := s.random.IntN(100); {
		case luck < 6: // a slow radio link delays the reading
			s.held = append(s.held, held{now.Add(time.Duration(500+s.random.IntN(4000)) * time.Millisecond), e})
		case luck < 7 && i < 6: // a reading that the device kept for hours while it was offline
			arrived = append(arrived, e, s.reading(i, now.Add(-3*time.Hour)))
		default:
			arrived = append(arrived, e)
		}
	}
	arrived = append(arrived, s.due(now)...)
	if s.turn%3 == 0 {
		reasons := events.Reasons()
		arrived = append(arrived, events.Bad(reasons[s.turn/3%len(reasons)], s.turn, now.UnixMilli(), maxEventBytes))
	}
	if s.turn%20 == 0 {
		arrived = append(arrived, events.Tombstone("sensor-retired"))
	}
	s.random.Shuffle(len(arrived), func(i, j int) { arrived[i], arrived[j] = arrived[j], arrived[i] })
	return arrived
}

// due returns the held readings that arrive by now.
func (s *sensors) due(now time.Time) []events.Event {
	var arrived []events.Event
	kept := s.held[:0]
	for _, h := range s.held {
		if h.due.After(now) {
			kept = append(kept, h)
		} else {
			arrived = append(arrived, h.event)
		}
	}
	s.held = kept
	return arrived
}

// reading makes one reading of a sensor, which is one of three kinds of device.
func (s *sensors) reading(sensor int, at time.Time) events.Event {
	meta := bson.D{{Key: "sensor", Value: fmt.Sprintf("s-%02d", sensor)}, {Key: "site", Value: []string{"north", "south", "roof"}[sensor%3]}}
	wave := math.Sin(float64(at.UnixMilli())/4000 + float64(sensor))
	fields := bson.D{{Key: "reading", Value: int32(s.turn)}}
	switch sensor % 3 {
	case 0:
		fields = append(fields, bson.E{Key: "temperature", Value: rounded(21 + 3*wave + s.random.NormFloat64()/5)},
			bson.E{Key: "humidity", Value: rounded(45 + 8*wave)})
	case 1:
		fields = append(fields, bson.E{Key: "wind", Value: bson.D{
			{Key: "speed", Value: rounded(6 + 4*wave)}, {Key: "direction", Value: int32(s.random.IntN(360))},
		}})
	default:
		fields = append(fields, bson.E{Key: "power", Value: bson.A{rounded(230 + wave), rounded(229 - wave), rounded(231 + wave/2)}},
			bson.E{Key: "ok", Value: s.random.IntN(50) > 0})
	}
	return events.Of(events.Reading{Time: at.UnixMilli(), Meta: meta, Fields: fields})
}

// This is the history of a tank, which a gateway sends all at once. Its level is in percent, with some readings a minute.
const (
	tankName  = "tank-1"
	tankHours = 3
	tankEvery = 15 * time.Second
)

// tankHistory returns the readings of the tank up to now.
func tankHistory(now time.Time) (all []events.Event) {
	meta := bson.D{{Key: "sensor", Value: tankName}, {Key: "site", Value: "roof"}}
	for at := now.Add(-tankHours * time.Hour); at.Before(now); at = at.Add(tankEvery) {
		hours := now.Sub(at).Hours()
		level := 55 + 35*math.Sin(4*hours) + 3*math.Sin(90*hours)
		all = append(all, events.Of(events.Reading{Time: at.UnixMilli(), Meta: meta, Fields: bson.D{{Key: "level", Value: math.Round(level*4) / 4}}}))
	}
	return all
}

// machine measures the computer the demo runs on.
type machine struct {
	host string
	last cpu.TimesStat
}

// newMachine reads the processors' times. The first measurement counts from them.
func newMachine(ctx context.Context) (*machine, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("asking for the host's name: %w", err)
	}
	m := &machine{host: host}
	times, err := cpu.TimesWithContext(ctx, false)
	if err != nil {
		return nil, fmt.Errorf("measuring the processors: %w", err)
	}
	m.last = times[0]
	return m, nil
}

// measure makes one event of each kind. It leaves out a kind that this system does not report.
func (m *machine) measure(ctx context.Context) []events.Event {
	var made []events.Event
	now := time.Now().UnixMilli()
	add := func(kind string, fields bson.D) {
		meta := bson.D{{Key: "host", Value: m.host}, {Key: "kind", Value: kind}}
		made = append(made, events.Of(events.Reading{Time: now, Meta: meta, Fields: fields}))
	}
	if fields, ok := m.processors(ctx); ok {
		add("cpu", fields)
	}
	if v, err := mem.VirtualMemoryWithContext(ctx); err == nil {
		add("memory", bson.D{
			{Key: "used", Value: whole(v.Used)}, {Key: "available", Value: whole(v.Available)}, {Key: "percent", Value: rounded(v.UsedPercent)},
		})
	}
	if counters, err := disk.IOCountersWithContext(ctx); err == nil {
		var read, written uint64
		for _, c := range counters {
			read, written = read+c.ReadBytes, written+c.WriteBytes
		}
		add("disk", bson.D{{Key: "read", Value: whole(read)}, {Key: "written", Value: whole(written)}})
	}
	if counters, err := net.IOCountersWithContext(ctx, false); err == nil && len(counters) > 0 {
		add("network", bson.D{{Key: "received", Value: whole(counters[0].BytesRecv)}, {Key: "sent", Value: whole(counters[0].BytesSent)}})
	}
	return made
}

// processors returns the share of time that the processors were busy since the last call, in percent.
func (m *machine) processors(ctx context.Context) (bson.D, bool) {
	times, err := cpu.TimesWithContext(ctx, false)
	if err != nil || len(times) == 0 {
		return nil, false
	}
	was, is := m.last, times[0]
	m.last = is
	passed := total(is) - total(was)
	if passed <= 0 {
		return nil, false
	}
	share := func(seconds float64) float64 { return rounded(100 * max(0, seconds) / passed) }
	fields := bson.D{
		{Key: "used", Value: share(passed - (is.Idle - was.Idle) - (is.Iowait - was.Iowait))},
		{Key: "user", Value: share(is.User - was.User)},
		{Key: "system", Value: share(is.System - was.System)},
	}
	if l, err := load.AvgWithContext(ctx); err == nil {
		fields = append(fields, bson.E{Key: "load1", Value: rounded(l.Load1)})
	}
	return fields, true
}

// total returns the whole time of a processor, busy or idle.
func total(t cpu.TimesStat) float64 {
	return t.User + t.System + t.Idle + t.Nice + t.Iowait + t.Irq + t.Softirq + t.Steal
}

// whole returns a counter in the type that a JSON integer is stored with, which is int32 if the value fits.
func whole(n uint64) any {
	if n <= math.MaxInt32 {
		return int32(n)
	}
	return int64(min(n, math.MaxInt64))
}

// rounded rounds to two decimal places.
func rounded(f float64) float64 { return math.Round(f*100) / 100 }
