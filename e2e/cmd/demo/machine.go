package main

import (
	"context"
	"fmt"
	"math"
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
