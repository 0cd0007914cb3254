package pipeline

import (
	"context"
	"errors"
	"fmt"
	"time"

	"waterwheel/internal/measurement"
	"waterwheel/internal/record"
)

const (
	// DefaultSchemaUnknownWait is how long a registry is asked for a schema that it says it does not have.
	DefaultSchemaUnknownWait = 30 * time.Second
	// badSchemaFor is how long an answer that makes letters is remembered.
	badSchemaFor = 10 * time.Minute
	// mostBadSchemas bounds the remembered answers.
	mostBadSchemas = 1000
)

// Schemas is the registry in which producers write down the schemas of their records.
type Schemas interface {
	// Schema asks for a schema that a record of the topic names. An error is an outage, but a *record.StopError stops the
	// partition.
	Schema(ctx context.Context, topic string, id measurement.SchemaID) (SchemaAnswer, error)
}

// SchemaAnswer is a registry's answer about an id.
type SchemaAnswer struct {
	// Schema may be one that can read no record. It has a reason then.
	Schema measurement.Schema
	// Unknown means that the registry has no schema with this id.
	Unknown bool
	// KnowsTopic means that the registry has given this process another schema of the topic before.
	KnowsTopic bool
}

// neededSchema is the schema that the next record names and that the decoder does not know.
type neededSchema struct {
	id        measurement.SchemaID
	from      Instant // when it was first asked for. Zero means not yet.
	asked     Instant // when it was last asked for
	isUnknown bool    // the registry answered that it does not have the schema
	since     Instant // when it first answered so
}

// advanceSchema asks for the schema that the next record names. No record is read before the answer.
func (w *Worker) advanceSchema(m Moment, actions []Action) []Action {
	if w.needed == nil || !w.mayRead() || w.busy.schema || !w.retry.schema.ready(m.Now) {
		return actions
	}
	if w.needed.from == 0 {
		w.needed.from = m.Now
	}
	w.busy.schema, w.needed.asked = true, m.Now
	return append(actions, FetchSchema{w.needed.id})
}

// schemaFetched goes on with the record that names the schema. The partition waits while the registry does not answer.
func (w *Worker) schemaFetched(m Moment, e SchemaFetched) {
	w.busy.schema = false
	if w.needed == nil || w.needed.id != e.ID {
		return // the records were forgotten, and will be read again
	}
	switch {
	case e.Err != nil:
		w.failed(m, &w.retry.schema, Registry, readingSchema, e.Err)
	case e.Answer.Unknown:
		w.answered(Registry)
		w.schemaUnknown(m, e.Answer.KnowsTopic)
	default:
		w.succeeded(&w.retry.schema, Registry)
		if e.Answer.Schema.Reason != "" {
			w.judge(m, e.Answer.Schema)
		} else {
			w.learn(e.Answer.Schema)
		}
	}
}

// schemaUnknown asks again for a while, because a registry's servers do not all learn of a new schema at once. Only a question asked
// after that time ends the wait. The time of the answer does not count, because the process may have been suspended meanwhile. A
// registry that has known no schema of the topic so far may be the wrong one. It must not turn a whole topic into
// letters.
func (w *Worker) schemaUnknown(m Moment, knowsTopic bool) {
	if !w.needed.isUnknown {
		w.needed.isUnknown, w.needed.since = true, m.Now
	}
	switch {
	case w.needed.asked-w.needed.since < w.o.SchemaUnknownWait:
		w.retry.schema.fail(m.Now, w.o.Random)
	case knowsTopic:
		w.retry.schema.succeed()
		w.judge(m, measurement.Schema{Reason: measurement.UnknownSchema, Detail: fmt.Sprintf("the registry has had no schema with this id for %v", w.o.SchemaUnknownWait)})
	default:
		w.stop(&record.StopError{Reason: "unknown_schema", Detail: fmt.Sprintf(
			"the registry has no schema %s, which the record at offset %d needs, and has returned no schema of this topic before: is SCHEMA_REGISTRY_URL the right registry?", w.needed.id, w.ledger.next)})
	}
}

// judge gives the decoder a schema whose records become letters, and remembers to ask for it again.
func (w *Worker) judge(m Moment, s measurement.Schema) {
	if len(w.badSchemas) >= mostBadSchemas {
		w.forgetBadSchemas(m.Now + badSchemaFor)
	}
	w.badSchemas[w.needed.id] = m.Now + badSchemaFor
	w.learn(s)
}

// forgetBadSchemas makes the decoder ask again for bad schemas whose time is over.
func (w *Worker) forgetBadSchemas(now Instant) {
	for id, until := range w.badSchemas {
		if now >= until {
			delete(w.badSchemas, id)
			w.o.Decoder.Forget(id)
		}
	}
}

// learn gives the decoder the schema that the next record names.
func (w *Worker) learn(s measurement.Schema) {
	w.o.Decoder.Learn(w.needed.id, s)
	w.needed = nil
}

// needs reports whether a record names a schema that must be asked for first.
func (w *Worker) needs(err error) bool {
	need, is := errors.AsType[*measurement.NeedSchemaError](err)
	if is {
		w.needed = &neededSchema{id: need.ID}
	}
	return is
}
