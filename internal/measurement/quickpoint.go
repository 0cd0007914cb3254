package measurement

import (
	"bytes"
	"math"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries/rawbson"
)

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
