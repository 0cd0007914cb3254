package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

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
