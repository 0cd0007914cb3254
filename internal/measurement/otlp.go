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
// zeroCount, zeroThreshold, positive: {offset, counts}, negative: {…}}, and summaries {count, sum, quantiles: [{q, value}]}. An event
// lacks what the request lacks, and has no empty texts.
type otlpReader struct {
	points  []otlpPoint
	metrics []otlpMetric
	parts   []byte // the elements that the events of a metric have in common
	metas   []byte // these elements in the normal form of meta
	out     []byte // the events of the record, one after the other
	request []byte // the request in Protobuf, if it came as JSON
	dotted  bool   // a name has a dot

	// nester nests dotted names. It nests the names that points have in common once for all points. Nil means that names stay as
	// they are.
	nester *nester
	common []byte
}

// otlpPoint is a data point of a metric.
type otlpPoint struct {
	message []byte
	metric  int
}

// otlpMetric is a metric with its surroundings: the messages for dead letters, and the elements of its events.
type otlpMetric struct {
	resource, scope, metric, data []byte
	field                         protowire.Number // number of the field data in the metric
	start, end                    int              // range of the metric's elements in parts
	metaStart, metaEnd            int              // range of the metric's elements in metas. Zero means that they are not made yet.
	dotted                        bool
}

// The numbers of the fields of the protocol that are read. A comment names the message of a group.
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

// protoField is a field of a message with its value.
type protoField struct {
	number protowire.Number
	kind   protowire.Type
	value  uint64 // value of a varint or a fixed number
	bytes  []byte
}

// is reports whether a field has a number and a type. A field of another type counts as unknown.
func (f protoField) is(number protowire.Number, kind protowire.Type) bool {
	return f.number == number && f.kind == kind
}

// cut cuts the first field off a message and returns its size. Size 0 means that the message is damaged.
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

// cutShort is cut for a field whose tag takes one byte, and whose varint or length does too. Zero means that the field is not of
// this kind.
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

// eachField calls each for every field of a message.
func eachField(message []byte, each func(f protoField) *DecodeError) *DecodeError {
	var f protoField
	for rest := message; len(rest) > 0; {
		size := f.cut(rest)
		if size == 0 {
			return newError(NotOTLP, "", "a message cannot be decoded: its last %d bytes are damaged or incomplete", len(rest))
		}
		if err := each(f); err != nil {
			return err
		}
		rest = rest[size:]
	}
	return nil
}

// lastOf returns the last field of a number in a message, as bytes. It returns nil if the message has no such field.
func lastOf(message []byte, number protowire.Number) (value []byte, err *DecodeError) {
	err = eachField(message, func(f protoField) *DecodeError {
		if f.is(number, protowire.BytesType) {
			value = f.bytes
		}
		return nil
	})
	return value, err
}

// begin finds the data points of a request. Its error concerns the whole request.
func (r *otlpReader) begin(request []byte) *DecodeError {
	r.clear()
	return eachField(request, func(f protoField) *DecodeError {
		if !f.is(otlpResourceMetrics, protowire.BytesType) {
			return nil
		}
		return r.resource(f.bytes)
	})
}

// clear forgets the previous request.
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

// metric finds the points of a metric, and appends the elements that their events have in common.
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
			m.data, m.field = f.bytes, f.number // if there are several, the last one counts
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

// nestCommon nests the names of the elements from start on. If they cannot be nested, it leaves the names to the events, which
// report the error.
func (r *otlpReader) nestCommon(e *otlpEvent, start int) {
	r.common = rawbson.EndDocument(append(append(r.common[:0], 0, 0, 0, 0), e.out[start:]...), 0)
	if nested, err := r.nester.nest(r.common); err == nil {
		e.out, e.dotted = append(e.out[:start], rawbson.Content(nested)...), false
	}
}

// event returns the event of a point. The event is valid until the next begin. skip means that the point has no recorded value.
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

// alone returns the request with only one of its points, which is the value of that point's dead letter.
func (r *otlpReader) alone(i int) []byte {
	point := r.points[i]
	m := &r.metrics[point.metric]
	data := replacing(m.data, otlpDataPoints, point.message)
	metric := replacing(m.metric, m.field, data)
	scope := replacing(m.scope, otlpMetrics, metric)
	resource := replacing(m.resource, otlpScopeMetrics, scope)
	return protowire.AppendBytes(protowire.AppendTag(nil, otlpResourceMetrics, protowire.BytesType), resource)
}

// replacing returns a message in which one value replaces all values of a field.
func replacing(message []byte, number protowire.Number, value []byte) (changed []byte) {
	var f protoField
	for rest := message; len(rest) > 0; {
		size := f.cut(rest)
		if size == 0 {
			break // cannot happen, because the message was read before
		}
		if f.number != number {
			changed = append(changed, rest[:size]...)
		}
		rest = rest[size:]
	}
	return protowire.AppendBytes(protowire.AppendTag(changed, number, protowire.BytesType), value)
}

// bufferBytes estimates the size of the buffers that a large record enlarges.
func (r *otlpReader) bufferBytes() int {
	const pointBytes, metricBytes = 32, 128
	return pointBytes*cap(r.points) + metricBytes*cap(r.metrics) + cap(r.parts) + cap(r.metas) + cap(r.out) + cap(r.request) + cap(r.common)
}

// drop drops the buffers.
func (r *otlpReader) drop() { *r = otlpReader{nester: r.nester} }
