package events

import (
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// metaOf returns the identity of a series. Most are objects with unsorted fields, and there is one of each other kind.
func (g *Generator) metaOf(series int) any {
	switch series {
	case 3:
		return nil
	case 4:
		if g.options.NoArrayMetas {
			return "rack"
		}
		return bson.A{"rack", int32(series)}
	case 5:
		return int32(series)
	case 6:
		return float64(5)
	case 7:
		return false
	}
	switch series % 3 {
	case 0:
		return fmt.Sprintf("sensor-%d", series)
	case 1:
		return bson.D{{Key: "site", Value: "north"}, {Key: "id", Value: int32(series)}}
	default:
		place := bson.D{{Key: "room", Value: int32(series % 10)}, {Key: "floor", Value: "é\"1"}}
		return bson.D{{Key: "place", Value: place}, {Key: "id", Value: int32(series)}}
	}
}

// fields makes the values of one reading. Series of one kind have the same fields. Every reading has the serial number step,
// which makes its event unique.
func (g *Generator) fields(series, step int) bson.D {
	fields := bson.D{{Key: "step", Value: int32(step)}}
	r := g.random
	add := func(name string, value any) { fields = append(fields, bson.E{Key: name, Value: value}) }
	switch series % 5 {
	case 0:
		add("user", r.NormFloat64()*10+30)
		add("idle", float64(r.IntN(100)))
		add("threads", int32(r.IntN(500)))
	case 1:
		add("temperature", float64(r.IntN(400)-100)/10)
		add("position", bson.D{{Key: "lat", Value: r.Float64()}, {Key: "lon", Value: int32(r.IntN(180))}, {Key: "fix", Value: bson.D{}}})
	case 2:
		add("bytes", int64(1)<<40+r.Int64N(1<<50))
		add("up", r.IntN(2) == 0)
		add("state", []string{"ok", "degraded", "", "prüfen"}[r.IntN(4)])
	case 3:
		samples := bson.A{}
		for range r.IntN(4) {
			samples = append(samples, int32(r.IntN(1000)-500))
		}
		add("samples", samples)
		add("note", nil)
	default:
		g.changing(add)
	}
	return fields
}

// changing adds fields that come and go, numbers of changing width, and sometimes a type that cannot share a bucket with the
// others.
func (g *Generator) changing(add func(string, any)) {
	r := g.random
	if r.IntN(3) > 0 {
		add("pressure", []any{int32(r.IntN(9)), int64(1)<<33 + int64(r.IntN(9)), r.Float64() * 9}[r.IntN(3)])
	}
	if r.IntN(3) > 0 {
		add("flow", r.Float64()*100)
	}
	if r.IntN(60) == 0 {
		add("quality", "bad")
	} else {
		add("quality", int32(r.IntN(5)))
	}
}
