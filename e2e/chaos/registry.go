package chaos

import (
	"context"
	"encoding/binary"
	"time"

	"waterwheel/e2e/events"
)

const (
	// registryAway is how long a killed registry is away.
	registryAway = 30 * time.Second
	// schemasAfter is the number of events after which producers register new versions of all schemas.
	schemasAfter = 5000
	// cutEvery is the number of events per event that is cut off.
	cutEvery = 200
)

// inAvro makes events in Avro of what next makes. Each names its schema in the registry.
func (r *run) inAvro(next func() events.Event) func() events.Event {
	made := 0
	return func() events.Event {
		e := next()
		for !e.Fate.Tombstone() && (e.Fate.Valid() != 1 || e.Fate.Array) {
			e = next()
		}
		if made++; e.Fate.Tombstone() {
			return e
		}
		schema, value := events.InAvro(*e.Fate.Parts[0].Reading, made/schemasAfter)
		e.Value = append(binary.BigEndian.AppendUint32([]byte{0}, r.registry.ID(schema)), value...)
		if made%cutEvery == 0 {
			e.Value, e.Fate = e.Value[:len(e.Value)-1], events.Fate{Reason: "not_avro"}
		}
		return e
	}
}

// killRegistry kills the schema registry for some time. Producers know their schemas, and register new ones meanwhile.
func (r *run) killRegistry(ctx context.Context) (bool, error) {
	if r.registry == nil || !r.away.TryLock() {
		return false, nil
	}
	r.working.Go(func() {
		defer r.away.Unlock()
		r.note("kill the schema registry, back after %.0fs", registryAway.Seconds())
		r.registry.Kill()
		sleep(ctx, registryAway)
		if err := r.registry.Start(); err != nil {
			r.fault("%v", err)
		}
	})
	return true, nil
}
