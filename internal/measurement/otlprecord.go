package measurement

import (
	"bytes"
	"math"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries"
	"waterwheel/internal/timeseries/rawbson"
)

// decodeOTLP decodes a record with a request, in Protobuf or in JSON.
func (d *Decoder) decodeOTLP() *DecodeError {
	request, err := d.openOTLP(&d.otlp, d.json, d.text)
	switch n := len(d.otlp.points); {
	case err != nil:
		return d.notOTLP(err)
	case n == 0:
		return newError(Empty, "", "the request has no data points of metrics (traces and logs are not read): do not send such requests")
	case n > timeseries.MaxParts:
		return newError(TooLarge, "", "the request has more than %d data points: send several requests", timeseries.MaxParts)
	case n == 1:
		return d.decodeOnlyPoint()
	}
	for i := range d.otlp.points {
		if d.isTooBad() {
			d.parts += len(d.otlp.points) - i
			break
		}
		if err := d.decodePoint(i, request); err != nil {
			return err
		}
	}
	return d.tooManyBad()
}

// openOTLP finds the data points of a request. For a request in JSON it also returns the request as a document.
func (d *Decoder) openOTLP(r *otlpReader, j *jsonReader, text []byte) (document []byte, err *DecodeError) {
	if d.options.Format == OTLP {
		return nil, r.begin(text)
	}
	r.clear()
	j.begin(text)
	j.clear()
	if j.next() != '{' {
		return nil, newError(NotOTLP, "", "%s is not a request of OpenTelemetry's protocol in JSON, which must be an object with resourceMetrics", quoteText(text))
	}
	if _, err = j.object(1); err != nil {
		return nil, err
	}
	if err = j.end(); err != nil {
		return nil, err
	}
	if r.request, err = appendOTLP(r.request[:0], j.out, "Request", 1); err != nil {
		return nil, err
	}
	return j.out, r.begin(r.request)
}

// notOTLP explains why a value is not a request. err is the reader's error.
func (d *Decoder) notOTLP(err *DecodeError) *DecodeError {
	switch form := d.formOf(d.text); {
	case err.Reason != NotOTLP && err.Reason != NotJSON:
		return err
	case d.options.Format == OTLP && isJSONStart(d.text):
		return newError(NotOTLP, "", "the value begins as JSON does: set EVENT_FORMAT=otlp_json for requests as JSON")
	case form != "":
		return newError(NotOTLP, "", "the value %s", form)
	case d.options.Format == OTLP:
		return newError(NotOTLP, err.Path, "the value is not an OTLP metrics request: %s", err.Detail)
	}
	return err
}

// decodeOnlyPoint decodes a request with one data point.
func (d *Decoder) decodeOnlyPoint() *DecodeError {
	var m Measurement
	if d.quickPoints && d.readPointQuickly(0, &m) {
		d.add(m)
		return nil
	}
	event, isEmpty, err := d.otlp.event(0)
	if isEmpty {
		d.tombstones++
		return nil
	}
	if err != nil {
		return err
	}
	return d.document(event, d.otlp.dotted)
}

// decodePoint decodes one of several data points. Its error concerns the whole record.
func (d *Decoder) decodePoint(i int, request []byte) *DecodeError {
	var m Measurement
	if d.quickPoints && d.readPointQuickly(i, &m) {
		d.addPart(m, nil)
		return nil
	}
	event, isEmpty, err := d.otlp.event(i)
	if isEmpty {
		d.parts++ // later points keep their positions in the request
		d.tombstones++
		return nil
	}
	results := len(d.results)
	if err := d.decodeDocument(event, d.otlp.dotted, err, []byte{}); err != nil || len(d.results) == results {
		return err
	}
	if wrong := d.results[results].Err; wrong != nil {
		value, failed := d.pointAlone(&d.otlp, i, request, d.wrap)
		if failed != nil {
			return failed
		}
		wrong.Value = value
		d.deadLetters += len(value)
	}
	return nil
}

// pointAlone returns the request with only one of its points, as the value of a record.
func (d *Decoder) pointAlone(r *otlpReader, i int, request []byte, w wrapping) ([]byte, *DecodeError) {
	if d.options.Format == OTLP {
		return d.wrapped(w, r.alone(i)), nil
	}
	left := i
	document, found := pickPoint(request, 0, &left)
	if !found {
		return nil, newError(InternalError, "", "the data point %d of the record is not found", i)
	}
	text, err := bson.MarshalExtJSON(bson.Raw(document), false, false)
	if err != nil {
		return nil, newError(InternalError, "", "the data point %d of the record cannot be written as a dead letter: %v", i, err)
	}
	return d.wrapped(w, text), nil
}

// pointOf returns the request of a record with only one of several points. False means that the record has only one point, or no
// such point.
func (d *Decoder) pointOf(text []byte, part int, w wrapping) ([]byte, bool) {
	var r otlpReader
	request, err := d.openOTLP(&r, newJSONReader(false), text)
	if err != nil || len(r.points) < 2 || part >= len(r.points) {
		return nil, false
	}
	value, err := d.pointAlone(&r, part, request, w)
	return value, err == nil
}

// pointsOf returns the events of a request's points. It leaves out the points that cannot be read.
func (d *Decoder) pointsOf(text []byte) (events [][]byte) {
	var r otlpReader
	if _, err := d.openOTLP(&r, newJSONReader(false), text); err != nil {
		return nil
	}
	for i := range r.points {
		if event, isEmpty, err := r.event(i); err == nil && !isEmpty {
			events = d.appendEvents(events, bytes.Clone(event), r.dotted)
		}
	}
	return events
}

// IsRequest reports whether a value is a request of OpenTelemetry's protocol in Protobuf, with data points.
func IsRequest(value []byte) bool {
	const first = 0x0a // the tag of resourceMetrics
	var r otlpReader
	return len(value) > 0 && value[0] == first && r.begin(value) == nil && len(r.points) > 0
}

// otlpFields are the names of a data point's fields that do not identify its stream.
var otlpFields = []string{
	"start", "value", "count", "sum", "min", "max", "bounds", "counts", "scale", "zeroCount", "zeroThreshold", "positive", "negative", "quantiles",
}

// takesPointsQuickly reports whether data points are stored by the format's default paths, and no stage changes them.
func (d *Decoder) takesPointsQuickly() bool {
	o := &d.options
	return (o.Format == OTLP || o.Format == OTLPJSON) && !d.stages.active && o.TimeField == "time" && slices.Equal(o.MetaFields, otlpMeta) && o.Fields == "" &&
		o.Root == "" && len(o.Drop) == 0 && o.TimeExact == "" && o.Numbers == NumbersInJSON &&
		!slices.ContainsFunc(otlpFields, func(name string) bool { return o.isReserved([]byte(name)) })
}

// readPointQuickly makes the measurement of a data point without making its event. It makes the common part of meta once for all
// points of a metric. False means only that the point's event must be read.
func (d *Decoder) readPointQuickly(i int, m *Measurement) bool {
	r := &d.otlp
	metric := &r.metrics[r.points[i].metric]
	if !d.hasCommonMeta(metric) {
		return false
	}
	start := len(r.out)
	e := otlpEvent{out: append(r.out, 0, 0, 0, 0), nester: r.nester}
	if !d.measurePoint(&e, start, r.points[i].message, metric, m) {
		return false
	}
	r.out = e.out
	return true
}

// measurePoint appends meta and fields, and sets the measurement.
func (d *Decoder) measurePoint(e *otlpEvent, start int, message []byte, metric *otlpMetric, m *Measurement) bool {
	l := otlpLayouts[metric.field]
	var v otlpValues
	attributes := e.open(bson.TypeEmbeddedDocument, "attributes")
	if e.scalars(message, l, &v) != nil || v.flags&otlpNothing != 0 || v.time == 0 || v.time > math.MaxInt64 || v.start > math.MaxInt64 {
		return false
	}
	if e.endOrDrop(attributes, "attributes"); e.isOdd && !d.normalizeAttributes(e, attributes) {
		return false
	}
	e.out = rawbson.EndDocument(append(e.out, d.otlp.metas[metric.metaStart:metric.metaEnd]...), start)
	middle := len(e.out)
	if e.start(&v); e.values(message, l, &v) != nil || middle-start > maxMetaBytes || !fitsDocument(len(e.out)-middle, len(otlpFields)) {
		return false
	}
	when, ok := d.time.parseInteger(int64(v.time))
	m.Time = when.millis
	m.Meta = bson.RawValue{Type: bson.TypeEmbeddedDocument, Value: e.out[start:middle:middle]}
	m.Elements = e.out[middle:len(e.out):len(e.out)]
	return ok && d.options.side(when.millis, d.record.Timestamp) == 0
}

// normalizeAttributes brings attributes into their normal form if their names are unusual or not in order.
func (d *Decoder) normalizeAttributes(e *otlpEvent, start int) bool {
	document := e.out[start:]
	if e.dotted {
		if e.nester == nil {
			return false
		}
		var err *DecodeError
		if document, err = e.nester.nest(document); err != nil {
			return false
		}
	}
	written := len(d.out)
	d.beginEvent(false)
	normal, err := d.normalize(bson.TypeEmbeddedDocument, document)
	if err == nil {
		e.out = append(e.out[:start], normal.Value...)
	}
	d.out = d.out[:written]
	return err == nil
}

// hasCommonMeta reports whether the common part of meta of a metric's points is available in its normal form. It makes this part
// if necessary.
func (d *Decoder) hasCommonMeta(metric *otlpMetric) bool {
	r := &d.otlp
	if metric.metaEnd > 0 || metric.dotted {
		return !metric.dotted
	}
	r.common = rawbson.EndDocument(append(append(r.common[:0], 0, 0, 0, 0), r.parts[metric.start:metric.end]...), 0)
	written := len(d.out)
	d.beginEvent(false)
	normal, err := d.normalize(bson.TypeEmbeddedDocument, r.common)
	d.out = d.out[:written]
	if err != nil {
		// The events' readers report the error.
		metric.dotted = true
		return false
	}
	metric.metaStart = len(r.metas)
	r.metas = append(r.metas, rawbson.Content(normal.Value)...)
	metric.metaEnd = len(r.metas)
	return true
}

// isOrdinary reports whether an attribute's name stays as it is, and comes after the name before it, in the normal form of meta.
func isOrdinary(name, before []byte) bool {
	return isUsualName(name) && bytes.Compare(before, name) < 0
}
