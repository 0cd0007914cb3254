package measurement

import (
	"encoding/binary"

	"google.golang.org/protobuf/encoding/protowire"

	"waterwheel/internal/timeseries/rawbson"
)

// otlpReader makes events of the data points of requests of OpenTelemetry's protocol (ExportMetricsServiceRequest):
//
//	{time, start, kind, name, unit, temporality, monotonic, resource: {…}, scope: {name, version, attributes}, attributes: {…}, value}
//
// In place of value, histograms have {count, sum, min, max, bounds, counts}, exponential ones {count, sum, min, max, scale,
// zeroCount, zeroThreshold, positive: {offset, counts}, negative: {…}}, and summaries {count, sum, quantiles: [{q, value}]}. What a
// request does not have, its event does not have, and texts that are empty are not there.
type otlpReader struct {
	points  []otlpPoint
	metrics []otlpMetric
	parts   []byte // the elements of events that the points of a metric have in common
	metas   []byte // these elements in the normal form of meta
	out     []byte // the events of the record, one after the other
	request []byte // that came as JSON
	dotted  bool   // a name has a dot

	// nester nests dotted names, those that points have in common once for all of them. Nil means that names stay as they are.
	nester *nester
	common []byte
}

// otlpPoint is a data point of a metric.
type otlpPoint struct {
	message []byte
	metric  int
}

// otlpMetric is a metric with what stands around it: the messages, for letters, and the elements of its events.
type otlpMetric struct {
	resource, scope, metric, data []byte
	field                         protowire.Number // of the data
	start, end                    int              // in parts
	metaStart, metaEnd            int              // in metas. Zero means that they are not made yet.
	dotted                        bool
}

// The fields of the protocol that are read, by the message that they are of.
const (
	otlpResourceMetrics protowire.Number = 1 // of a request

	otlpResource     protowire.Number = 1 // of ResourceMetrics
	otlpScopeMetrics protowire.Number = 2

	otlpScope   protowire.Number = 1 // of ScopeMetrics
	otlpMetrics protowire.Number = 2

	otlpName        protowire.Number = 1 // of Metric
	otlpUnit        protowire.Number = 3
	otlpGauge       protowire.Number = 5
	otlpSum         protowire.Number = 7
	otlpHistogram   protowire.Number = 9
	otlpExponential protowire.Number = 10
	otlpSummary     protowire.Number = 11

	otlpDataPoints  protowire.Number = 1 // of Gauge, Sum and the others
	otlpTemporality protowire.Number = 2
	otlpMonotonic   protowire.Number = 3
)

var (
	otlpKinds         = map[protowire.Number]string{otlpGauge: "gauge", otlpSum: "sum", otlpHistogram: "histogram", otlpExponential: "exponential", otlpSummary: "summary"}
	otlpTemporalities = []string{1: "delta", 2: "cumulative"}
)

// protoField is a field of a message, with the value that its type has.
type protoField struct {
	number protowire.Number
	kind   protowire.Type
	value  uint64 // of a varint or a fixed number
	bytes  []byte
}

// is reports whether a field has a number and a type. One of another type is as unknown as one of another number.
func (f protoField) is(number protowire.Number, kind protowire.Type) bool {
	return f.number == number && f.kind == kind
}

// cutField cuts the first field off a message; size 0: the message is damaged.
func (f *protoField) cut(message []byte) (size int) {
	if size = f.cutShort(message); size > 0 {
		return size
	}
	number, kind, n := protowire.ConsumeTag(message)
	if n < 0 {
		return 0
	}
	f.number, f.kind, f.bytes = number, kind, nil
	rest, m := message[n:], 0
	switch kind {
	case protowire.VarintType:
		f.value, m = protowire.ConsumeVarint(rest)
	case protowire.Fixed64Type:
		f.value, m = protowire.ConsumeFixed64(rest)
	case protowire.BytesType:
		f.bytes, m = protowire.ConsumeBytes(rest)
	default:
		m = protowire.ConsumeFieldValue(number, kind, rest)
	}
	if m < 0 {
		return 0
	}
	return n + m
}

// cutShort is cut of a field whose tag, and whose varint or length, has one byte. Zero means that the field is not like that.
func (f *protoField) cutShort(message []byte) int {
	if len(message) < 2 || message[0] >= 0x80 || message[0] < 1<<3 {
		return 0
	}
	f.number, f.kind, f.bytes = protowire.Number(message[0]>>3), protowire.Type(message[0]&7), nil
	switch next := message[1]; {
	case f.kind == protowire.Fixed64Type && len(message) > 8:
		f.value = binary.LittleEndian.Uint64(message[1:])
		return 9
	case next >= 0x80:
	case f.kind == protowire.VarintType:
		f.value = uint64(next)
		return 2
	case f.kind == protowire.BytesType && 2+int(next) <= len(message):
		f.bytes = message[2 : 2+int(next) : 2+int(next)]
		return 2 + int(next)
	}
	return 0
}

// eachField calls a function for each field of a message.
func eachField(message []byte, each func(f protoField) *DecodeError) *DecodeError {
	var f protoField
	for rest := message; len(rest) > 0; {
		size := f.cut(rest)
		if size == 0 {
			return newError(NotOTLP, "", "a message is damaged or cut %d bytes before its end", len(rest))
		}
		if err := each(f); err != nil {
			return err
		}
		rest = rest[size:]
	}
	return nil
}

// lastOf is the last field of a number in a message, as bytes; nil if it has none.
func lastOf(message []byte, number protowire.Number) (value []byte, err *DecodeError) {
	err = eachField(message, func(f protoField) *DecodeError {
		if f.is(number, protowire.BytesType) {
			value = f.bytes
		}
		return nil
	})
	return value, err
}

// begin finds the data points of a request. Its error is of the whole request.
func (r *otlpReader) begin(request []byte) *DecodeError {
	r.clear()
	return eachField(request, func(f protoField) *DecodeError {
		if !f.is(otlpResourceMetrics, protowire.BytesType) {
			return nil
		}
		return r.resource(f.bytes)
	})
}

// clear forgets the request before.
func (r *otlpReader) clear() {
	r.points, r.metrics, r.parts, r.metas, r.out = r.points[:0], r.metrics[:0], r.parts[:0], r.metas[:0], r.out[:0]
}

func (r *otlpReader) resource(message []byte) *DecodeError {
	resource, err := lastOf(message, otlpResource)
	if err != nil {
		return err
	}
	return eachField(message, func(f protoField) *DecodeError {
		if !f.is(otlpScopeMetrics, protowire.BytesType) {
			return nil
		}
		return r.scope(otlpMetric{resource: message, scope: f.bytes}, resource)
	})
}

func (r *otlpReader) scope(m otlpMetric, resource []byte) *DecodeError {
	scope, err := lastOf(m.scope, otlpScope)
	if err != nil {
		return err
	}
	return eachField(m.scope, func(f protoField) *DecodeError {
		if !f.is(otlpMetrics, protowire.BytesType) {
			return nil
		}
		m.metric = f.bytes
		return r.metric(m, resource, scope)
	})
}

// metric finds the points of a metric, and appends what they have in common.
func (r *otlpReader) metric(m otlpMetric, resource, scope []byte) *DecodeError {
	var name, unit []byte
	err := eachField(m.metric, func(f protoField) *DecodeError {
		switch {
		case f.kind != protowire.BytesType:
		case f.number == otlpName:
			name = f.bytes
		case f.number == otlpUnit:
			unit = f.bytes
		case otlpKinds[f.number] != "":
			m.data, m.field = f.bytes, f.number // of several the last counts
		}
		return nil
	})
	if err != nil || m.data == nil {
		return err
	}
	first, temporality, monotonic := len(r.points), uint64(0), false
	err = eachField(m.data, func(f protoField) *DecodeError {
		switch {
		case f.is(otlpDataPoints, protowire.BytesType):
			r.points = append(r.points, otlpPoint{f.bytes, len(r.metrics)})
		case f.is(otlpTemporality, protowire.VarintType):
			temporality = f.value
		case f.is(otlpMonotonic, protowire.VarintType):
			monotonic = f.value != 0
		}
		return nil
	})
	if err != nil || len(r.points) == first {
		return err
	}
	e := otlpEvent{out: r.parts}
	m.start = len(e.out)
	e.word("kind", otlpKinds[m.field])
	if err = e.text("name", name); err == nil {
		err = e.text("unit", unit)
	}
	if err != nil {
		return err
	}
	hasTemporality := m.field != otlpGauge && m.field != otlpSummary
	if hasTemporality && temporality > 0 && temporality < uint64(len(otlpTemporalities)) {
		e.word("temporality", otlpTemporalities[temporality])
	}
	if m.field == otlpSum {
		e.flag("monotonic", monotonic)
	}
	if err == nil {
		err = e.resource(resource)
	}
	if err == nil {
		err = e.scope(scope)
	}
	if err != nil {
		return err
	}
	if e.dotted && r.nester != nil {
		r.nestCommon(&e, m.start)
	}
	r.parts, m.end, m.dotted = e.out, len(e.out), e.dotted
	r.metrics = append(r.metrics, m)
	return nil
}

// nestCommon nests the names of elements from a place on. Names that cannot be nested are left for each event to say.
func (r *otlpReader) nestCommon(e *otlpEvent, start int) {
	r.common = rawbson.EndDocument(append(append(r.common[:0], 0, 0, 0, 0), e.out[start:]...), 0)
	if nested, err := r.nester.nest(r.common); err == nil {
		e.out, e.dotted = append(e.out[:start], rawbson.Content(nested)...), false
	}
}

// event is the event of a point, valid until the next begin. Skip: nothing was recorded at its time.
func (r *otlpReader) event(i int) (event []byte, skip bool, err *DecodeError) {
	point := r.points[i]
	m := &r.metrics[point.metric]
	start := len(r.out)
	e := otlpEvent{out: append(r.out, 0, 0, 0, 0), dotted: m.dotted, nester: r.nester}
	e.out = append(e.out, r.parts[m.start:m.end]...)
	if err = e.point(point.message, m.field); err != nil || e.isEmpty {
		return nil, e.isEmpty, err
	}
	r.out, r.dotted = rawbson.EndDocument(e.out, start), e.dotted
	return r.out[start:len(r.out):len(r.out)], false, nil
}

// alone is the request with one of its points only: what a dead letter of that point holds. It is valid until the next one.
func (r *otlpReader) alone(i int) []byte {
	point := r.points[i]
	m := &r.metrics[point.metric]
	data := replacing(m.data, otlpDataPoints, point.message)
	metric := replacing(m.metric, m.field, data)
	scope := replacing(m.scope, otlpMetrics, metric)
	resource := replacing(m.resource, otlpScopeMetrics, scope)
	return protowire.AppendBytes(protowire.AppendTag(nil, otlpResourceMetrics, protowire.BytesType), resource)
}

// replacing is a message with one value of a field in place of all.
func replacing(message []byte, number protowire.Number, value []byte) (changed []byte) {
	var f protoField
	for rest := message; len(rest) > 0; {
		size := f.cut(rest)
		if size == 0 {
			break // It has been read, so it is not damaged.
		}
		if f.number != number {
			changed = append(changed, rest[:size]...)
		}
		rest = rest[size:]
	}
	return protowire.AppendBytes(protowire.AppendTag(changed, number, protowire.BytesType), value)
}

// bufferBytes is what the buffers take that a large record makes large.
func (r *otlpReader) bufferBytes() int {
	const pointBytes, metricBytes = 32, 128
	return pointBytes*cap(r.points) + metricBytes*cap(r.metrics) + cap(r.parts) + cap(r.metas) + cap(r.out) + cap(r.request) + cap(r.common)
}

// drop drops these buffers.
func (r *otlpReader) drop() { *r = otlpReader{nester: r.nester} }
