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
	// badSchemaFor is how long an answer counts that makes letters.
	badSchemaFor = 10 * time.Minute
	// mostBadSchemas bounds those answers.
	mostBadSchemas = 1000
)

// Schemas is the registry in which producers write down the schemas of their records.
type Schemas interface {
	// Schema asks for a schema that a record of the topic names. An error is an outage; *record.StopError ends the partition's work.
	Schema(ctx context.Context, topic string, id measurement.SchemaID) (SchemaAnswer, error)
}

// SchemaAnswer is what a registry says of an id.
type SchemaAnswer struct {
	// Schema may be one by which no record can be read; it has a reason then.
	Schema measurement.Schema
	// Unknown means that the registry has no schema of this id.
	Unknown bool
	// KnowsTopic means that the registry gave this process another schema of the topic before.
	KnowsTopic bool
}

// neededSchema is the schema that the next record names, and that the decoder does not know.
type neededSchema struct {
	id        measurement.SchemaID
	from      Instant // when it was asked for first. Zero means that it was not.
	isUnknown bool    // the registry said that it does not have it
	since     Instant // when it said that first
}

// advanceSchema asks for the schema that the next record names. Nothing is read before it is there.
func (w *Worker) advanceSchema(m Moment, actions []Action) []Action {
	if w.needed == nil || !w.mayRead() || w.busy.schema || !w.retry.schema.ready(m.Now) {
		return actions
	}
	if w.needed.from == 0 {
		w.needed.from = m.Now
	}
	w.busy.schema = true
	return append(actions, FetchSchema{w.needed.id})
}

// schemaFetched goes on with the record that names the schema. While the registry does not answer, the partition waits.
func (w *Worker) schemaFetched(m Moment, e SchemaFetched) {
	w.busy.schema = false
	if w.needed == nil || w.needed.id != e.ID {
		return // what was read is forgotten, and read again
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

// schemaUnknown asks again for a while: a registry's servers do not know at once what was written down at one of them. A registry
// that knew no schema of the topic so far may be the wrong one, which must not make letters of a whole topic.
func (w *Worker) schemaUnknown(m Moment, knowsTopic bool) {
	if !w.needed.isUnknown {
		w.needed.isUnknown, w.needed.since = true, m.Now
	}
	switch {
	case m.Now-w.needed.since < w.o.SchemaUnknownWait:
		w.retry.schema.fail(m.Now, w.o.Random)
	case knowsTopic:
		w.retry.schema.succeed()
		w.judge(m, measurement.Schema{Reason: measurement.UnknownSchema, Detail: fmt.Sprintf("the registry has had none of this id for %v", w.o.SchemaUnknownWait)})
	default:
		w.stop(&record.StopError{Reason: "unknown_schema", Detail: fmt.Sprintf(
			"the registry has no schema %s, which the record at offset %d names, and gave none of this topic before: is SCHEMA_REGISTRY_URL the right registry?", w.needed.id, w.ledger.next)})
	}
}

// judge tells the decoder a schema whose records become letters, and remembers to ask for it again.
func (w *Worker) judge(m Moment, s measurement.Schema) {
	if len(w.badSchemas) >= mostBadSchemas {
		w.forgetBadSchemas(m.Now + badSchemaFor)
	}
	w.badSchemas[w.needed.id] = m.Now + badSchemaFor
	w.learn(s)
}

// forgetBadSchemas makes the decoder ask again for the schemas whose records become letters only until now.
func (w *Worker) forgetBadSchemas(now Instant) {
	for id, until := range w.badSchemas {
		if now >= until {
			delete(w.badSchemas, id)
			w.o.Decoder.Forget(id)
		}
	}
}

// learn tells the decoder the schema that the next record names.
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
