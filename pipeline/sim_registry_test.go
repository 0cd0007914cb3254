package pipeline_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"time"

	"waterwheel/internal/measurement"
	"waterwheel/pipeline"
)

// schemaUnknownWait is how long a worker asks for a schema that the registry does not know. The registry knows every schema of a
// record after half of this time.
const schemaUnknownWait = 10 * time.Second

// These are forms of schemas. The id of a schema is its version times forms, plus its form.
const (
	plainForm = iota
	kindForm
	poisonForm
	poisonKindForm
	forms
)

// neverWritten is the first version that the registry never gets.
const neverWritten = 1 << 20

// schemaRegistry is the registry of a run with records in Avro.
type schemaRegistry struct {
	w       *world
	away    time.Duration   // until then the registry does not answer
	written []time.Duration // when the registry gets the schemas of each version
}

// registerSchemas decides whether the records of this run are in Avro and name their schemas. They are in one of four runs, and
// if a guard of schemas is removed. It draws from random numbers of its own, so that the other runs do not change.
func (w *world) registerSchemas() {
	switch w.broken {
	case "":
		w.traits.schemas = rand.New(rand.NewPCG(w.seed, 3)).Float64() < 0.25
	case outageAsUnknown, unknownAtOnce:
		w.traits.schemas = true
	}
	if !w.traits.schemas {
		return
	}
	w.registry = &schemaRegistry{w: w, written: []time.Duration{0}}
	w.at(w.between(1, 15), w.registry.leave)
}

// leave makes the registry unavailable for a while, again and again.
func (s *schemaRegistry) leave() {
	w := s.w
	if !w.chaos || w.over {
		return
	}
	s.away = w.now + w.between(1, 40)
	w.logf("--- the registry is away until %v", s.away)
	w.at(s.away+w.between(2, 40), s.leave)
}

// schema returns the text of a schema. It is empty if the registry does not have the schema at the moment.
func (s *schemaRegistry) schema(id measurement.SchemaID) string {
	version := int(id.Number / forms)
	if version >= len(s.written) || s.written[version] > s.w.now {
		return ""
	}
	return schemaText(id.Number % forms)
}

func schemaText(form uint32) string {
	text := `{"type":"record","name":"R","fields":[{"name":"meta","type":"string"},{"name":"time","type":"long"},{"name":"v","type":"long"}`
	if form == kindForm || form == poisonKindForm {
		text += `,{"name":"k","type":["null","double","string"]}`
	}
	if form == poisonForm || form == poisonKindForm {
		text += `,{"name":"poison","type":"int"}`
	}
	return text + "]}"
}

// framed encodes a JSON event in Avro, after the frame of its schema. A producer sometimes registers a new version, and sends its
// first record before all servers of the registry know it.
func (s *schemaRegistry) framed(text string) []byte {
	var e struct {
		Meta    string
		Time, V int64
		K       json.RawMessage
		Poison  *int
	}
	if err := json.Unmarshal([]byte(text), &e); err != nil {
		panic(err)
	}
	form := plainForm
	if e.K != nil {
		form += kindForm
	}
	if e.Poison != nil {
		form += poisonForm
	}
	if s.w.chance(0.1) {
		s.written = append(s.written, s.w.now+s.w.between(0, schemaUnknownWait.Seconds()/2))
	}
	version := len(s.written) - 1 - s.w.rnd.IntN(min(2, len(s.written)))
	value := frameOf(version, form)
	value = append(binary.AppendVarint(value, int64(len(e.Meta))), e.Meta...)
	value = binary.AppendVarint(binary.AppendVarint(value, e.Time), e.V)
	if e.K != nil {
		value = appendKind(value, e.K)
	}
	if e.Poison != nil {
		value = binary.AppendVarint(value, int64(*e.Poison))
	}
	return value
}

func frameOf(version, form int) []byte {
	return binary.BigEndian.AppendUint32([]byte{0}, uint32(version*forms+form))
}

// appendKind appends a value of the union of kindForm.
func appendKind(b []byte, text json.RawMessage) []byte {
	var value any
	if err := json.Unmarshal(text, &value); err != nil {
		panic(err)
	}
	switch value := value.(type) {
	case float64:
		return binary.LittleEndian.AppendUint64(binary.AppendVarint(b, 1), math.Float64bits(value))
	case string:
		return append(binary.AppendVarint(binary.AppendVarint(b, 2), int64(len(value))), value...)
	}
	return binary.AppendVarint(b, 0)
}

// bad returns a value that must become a letter. It is truncated, or names a schema that the registry never gets.
func (s *schemaRegistry) bad() []byte {
	if s.w.chance(0.3) {
		return append(frameOf(neverWritten+s.w.rnd.IntN(2), plainForm), "\x02A"...)
	}
	return append(frameOf(0, plainForm), "\x02A"...)
}

var errRegistry = errors.New("no answer from the registry")

// Schema implements pipeline.Schemas.
func (o ports) Schema(ctx context.Context, _ string, id measurement.SchemaID) (pipeline.SchemaAnswer, error) {
	s := o.r.p.w.registry
	answer, _ := taskOf(ctx).ask(5*time.Second, func() any {
		if s.w.mishap(0.1) || s.w.chaos && s.away > s.w.now {
			s.w.note("(met) question that the registry does not answer")
			return errRegistry
		}
		return s.schema(id)
	})
	switch answer := answer.(type) {
	case error:
		return pipeline.SchemaAnswer{}, answer
	case string:
		if answer != "" {
			return pipeline.SchemaAnswer{Schema: measurement.Schema{Text: answer}, KnowsTopic: true}, nil
		}
		if id.Number/forms >= neverWritten {
			s.w.note("(met) schema that the registry never has")
		} else {
			s.w.note("(met) schema that the registry does not have yet")
		}
		return pipeline.SchemaAnswer{Unknown: true, KnowsTopic: true}, nil
	}
	return pipeline.SchemaAnswer{}, errRegistry
}

// decoder returns a decoder of the run's records. With asking it gets schemas at once, outside of the protocol.
func (w *world) decoder(asking bool) *measurement.Decoder {
	o := measurement.Options{TimeField: "time", TimeFormat: "unix_ms", MetaField: "meta", StoredTime: "time", StoredMeta: "meta"}
	if w.traits.schemas {
		o.Format, o.Framing = measurement.Avro, measurement.Confluent
	}
	if w.traits.schemas && asking {
		o.Ask = func(id measurement.SchemaID) (measurement.Schema, error) {
			if id.Number/forms >= neverWritten {
				return measurement.Schema{Reason: measurement.UnknownSchema}, nil
			}
			return measurement.Schema{Text: schemaText(id.Number % forms)}, nil
		}
	}
	d, err := measurement.New(o)
	if err != nil {
		panic(err)
	}
	return d
}

// schemaMutations remove guards of the questions to the registry.
var schemaMutations = []mutation{outageAsUnknown, unknownAtOnce}

// mutatedSchema returns an answer of the registry, as the mutation changes it.
func (w *world) mutatedSchema(e pipeline.SchemaFetched) pipeline.Event {
	if w.broken == outageAsUnknown && e.Err != nil || w.broken == unknownAtOnce && e.Answer.Unknown {
		return pipeline.SchemaFetched{ID: e.ID, Answer: pipeline.SchemaAnswer{Schema: measurement.Schema{Reason: measurement.UnknownSchema}}}
	}
	return e
}
