package main

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"time"

	"github.com/shirou/gopsutil/v4/cpu"
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
}

func newSensors() *sensors {
	return &sensors{random: rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 2))}
}

// measure returns the events of every other sensor that arrive now, in random order.
func (s *sensors) measure(now time.Time) []events.Event {
	s.turn++
	var arrived []events.Event
	for i := s.turn % 2; i < sensorCount; i += 2 {
		age := s.random.IntN(200) // in milliseconds
		switch luck := s.random.IntN(100); {
		case luck < 6: // a slow radio link delayed the reading
			age = 500 + s.random.IntN(4000)
		case luck < 7 && i < 6: // a reading that the device kept for hours while it was offline
			arrived = append(arrived, s.reading(i, now.Add(-3*time.Hour)))
		}
		arrived = append(arrived, s.reading(i, now.Add(-time.Duration(age)*time.Millisecond)))
	}
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

// measureMachine makes one event of each kind about the computer that the demo runs on. It leaves out a kind that this system does
// not report.
func measureMachine(ctx context.Context) []events.Event {
	var made []events.Event
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	now := time.Now().UnixMilli()
	add := func(kind string, fields bson.D) {
		meta := bson.D{{Key: "host", Value: host}, {Key: "kind", Value: kind}}
		made = append(made, events.Of(events.Reading{Time: now, Meta: meta, Fields: fields}))
	}
	if busy, err := cpu.PercentWithContext(ctx, 0, false); err == nil && len(busy) > 0 { // since the last call
		add("cpu", bson.D{{Key: "used", Value: rounded(busy[0])}})
	}
	if l, err := load.AvgWithContext(ctx); err == nil {
		add("load", bson.D{{Key: "minute", Value: rounded(l.Load1)}, {Key: "quarter", Value: rounded(l.Load15)}})
	}
	if v, err := mem.VirtualMemoryWithContext(ctx); err == nil {
		add("memory", bson.D{{Key: "used", Value: rounded(v.UsedPercent)}, {Key: "free", Value: megabytes(v.Available)}})
	}
	if counters, err := net.IOCountersWithContext(ctx, false); err == nil && len(counters) > 0 {
		add("network", bson.D{{Key: "received", Value: megabytes(counters[0].BytesRecv)}, {Key: "sent", Value: megabytes(counters[0].BytesSent)}})
	}
	return made
}

func megabytes(n uint64) float64 { return rounded(float64(n) / 1e6) }

// rounded rounds to two decimal places.
func rounded(f float64) float64 { return math.Round(f*100) / 100 }
