package measurement

import (
	"encoding/binary"
	"math"

	"go.mongodb.org/mongo-driver/v2/bson"
	"google.golang.org/protobuf/encoding/protowire"

	"waterwheel/internal/timeseries/rawbson"
)

// otlpLayout holds the numbers of the fields of a data point, which differ by the kind of its metric. All kinds have the start at
// 2 and the time at 3. Zero means that points of the kind have no such field.
type otlpLayout struct {
	attributes, flags            protowire.Number
	asDouble, asInt              protowire.Number
	count, sum, min, max         protowire.Number
	counts, bounds               protowire.Number
	scale, zeroCount, threshold  protowire.Number
	positive, negative, quantile protowire.Number
	sumIsOptional                bool
}

// otlpNothing is the flag of a point without a recorded value.
const otlpNothing = 1

const (
	otlpStart protowire.Number = 2
	otlpTime  protowire.Number = 3
)

var (
	otlpNumberPoint = otlpLayout{attributes: 7, flags: 8, asDouble: 4, asInt: 6}
	otlpLayouts     = map[protowire.Number]*otlpLayout{
		otlpGauge: &otlpNumberPoint, otlpSum: &otlpNumberPoint,
		otlpHistogram:   {attributes: 9, flags: 10, count: 4, sum: 5, min: 11, max: 12, counts: 6, bounds: 7, sumIsOptional: true},
		otlpExponential: {attributes: 1, flags: 10, count: 4, sum: 5, min: 12, max: 13, scale: 6, zeroCount: 7, threshold: 14, positive: 8, negative: 9, sumIsOptional: true},
		otlpSummary:     {attributes: 7, flags: 8, count: 4, sum: 5, quantile: 6},
	}
)

// otlpValues are the values of a data point, without its lists.
type otlpValues struct {
	start, time, flags          uint64
	value                       uint64
	valueKind                   bson.Type // Zero means that there is no value.
	count, sum, min, max        uint64
	hasSum, hasMin, hasMax      bool
	scale, zeroCount, threshold uint64
	positive, negative          []byte
	hasPositive, hasNegative    bool
}

// point appends the elements that belong to one data point, that is, its attributes, times and values. field is the number of the
// metric's data.
func (e *otlpEvent) point(message []byte, field protowire.Number) *DecodeError {
	l := otlpLayouts[field]
	var v otlpValues
	attributes, before := e.open(bson.TypeEmbeddedDocument, "attributes"), e.dotted
	e.dotted = false
	if err := e.scalars(message, l, &v); err != nil {
		return err
	}
	e.endOrDrop(attributes, "attributes")
	if e.dotted && e.nester != nil {
		if nested, err := e.nester.nest(e.out[attributes:]); err == nil {
			e.out, e.dotted = append(e.out[:attributes], nested...), false
		}
	}
	e.dotted = e.dotted || before
	if e.isEmpty = v.flags&otlpNothing != 0; e.isEmpty {
		return nil
	}
	switch {
	case v.time > math.MaxInt64 || v.start > math.MaxInt64:
		return newError(BadTime, "time", "the data point has a time after the year 2262: send nanoseconds since 1970")
	case v.time > 0:
		e.out = binary.LittleEndian.AppendUint64(rawbson.AppendHeader(e.out, bson.TypeInt64, "time"), v.time)
	}
	e.start(&v)
	return e.values(message, l, &v)
}

// start appends the time from which the point's values are summed.
func (e *otlpEvent) start(v *otlpValues) {
	if v.start > 0 {
		e.out = rawbson.AppendDate(e.out, "start", int64(v.start/1e6))
	}
}

// scalars reads the values of a point, without its lists, and appends its attributes.
func (e *otlpEvent) scalars(message []byte, l *otlpLayout, v *otlpValues) *DecodeError {
	var f protoField
	for rest := message; len(rest) > 0; {
		size := f.cut(rest)
		if size == 0 {
			return newError(NotOTLP, "", "a data point cannot be decoded: its last %d bytes are damaged or incomplete", len(rest))
		}
		rest = rest[size:]
		switch f.kind {
		case protowire.BytesType:
			if f.number == l.attributes {
				if err := e.attribute(f.bytes, 2); err != nil {
					return err.within("attributes")
				}
			}
			v.message(&f, l)
		case protowire.Fixed64Type:
			v.fixed(&f, l)
		case protowire.VarintType:
			switch f.number {
			case l.flags:
				v.flags = f.value
			case l.scale:
				v.scale = f.value
			}
		}
	}
	return nil
}

func (v *otlpValues) message(f *protoField, l *otlpLayout) {
	switch f.number {
	case l.positive:
		v.positive, v.hasPositive = f.bytes, true
	case l.negative:
		v.negative, v.hasNegative = f.bytes, true
	}
}

func (v *otlpValues) fixed(f *protoField, l *otlpLayout) {
	switch f.number {
	case otlpStart:
		v.start = f.value
	case otlpTime:
		v.time = f.value
	case l.asDouble:
		v.value, v.valueKind = f.value, bson.TypeDouble
	case l.asInt:
		v.value, v.valueKind = f.value, bson.TypeInt64
	case l.count:
		v.count = f.value
	case l.sum:
		v.sum, v.hasSum = f.value, true
	case l.min:
		v.min, v.hasMin = f.value, true
	case l.max:
		v.max, v.hasMax = f.value, true
	case l.zeroCount:
		v.zeroCount = f.value
	case l.threshold:
		v.threshold = f.value
	}
}

// values appends the values of a point.
func (e *otlpEvent) values(message []byte, l *otlpLayout, v *otlpValues) *DecodeError {
	if l.asDouble > 0 {
		switch v.valueKind {
		case bson.TypeDouble:
			e.double("value", v.value)
		case bson.TypeInt64:
			e.integer("value", int64(v.value))
		default:
			return newError(MissingField, "value", "the data point has no value: send asInt or asDouble, or set the flag for no recorded value")
		}
		return nil
	}
	e.count("count", v.count)
	if v.hasSum || !l.sumIsOptional {
		e.double("sum", v.sum)
	}
	if v.hasMin {
		e.double("min", v.min)
	}
	if v.hasMax {
		e.double("max", v.max)
	}
	switch {
	case l.counts > 0:
		return e.buckets(message, l)
	case l.scale > 0:
		return e.exponents(v)
	}
	return e.quantiles(message, l)
}

// buckets appends the bounds and counts of a histogram.
func (e *otlpEvent) buckets(message []byte, l *otlpLayout) *DecodeError {
	if err := e.list("bounds", message, l.bounds, protowire.Fixed64Type, func(dst []byte, bits uint64) (bson.Type, []byte) {
		return bson.TypeDouble, binary.LittleEndian.AppendUint64(dst, bits)
	}); err != nil {
		return err
	}
	return e.list("counts", message, l.counts, protowire.Fixed64Type, appendUnsigned)
}

// exponents appends the scale and the buckets of an exponential histogram.
func (e *otlpEvent) exponents(v *otlpValues) *DecodeError {
	e.integer("scale", int64(int32(protowire.DecodeZigZag(v.scale&math.MaxUint32))))
	e.count("zeroCount", v.zeroCount)
	e.double("zeroThreshold", v.threshold)
	if v.hasPositive {
		if err := e.offsetBuckets("positive", v.positive); err != nil {
			return err
		}
	}
	if v.hasNegative {
		return e.offsetBuckets("negative", v.negative)
	}
	return nil
}

func (e *otlpEvent) offsetBuckets(name string, message []byte) *DecodeError {
	const offsetField, countsField = 1, 2
	var offset uint64
	err := eachField(message, func(f protoField) *DecodeError {
		if f.is(offsetField, protowire.VarintType) {
			offset = f.value
		}
		return nil
	})
	start := e.open(bson.TypeEmbeddedDocument, name)
	e.integer("offset", int64(int32(protowire.DecodeZigZag(offset&math.MaxUint32))))
	if err == nil {
		err = e.list("counts", message, countsField, protowire.VarintType, appendUnsigned)
	}
	e.end(start)
	return err
}

// list appends the numbers of a repeated field, packed or not. It appends nothing if there are none.
func (e *otlpEvent) list(name string, message []byte, number protowire.Number, kind protowire.Type, appendValue func(dst []byte, value uint64) (bson.Type, []byte)) *DecodeError {
	start, n := e.open(bson.TypeArray, name), 0
	element := func(number uint64) {
		kind, out := appendValue(rawbson.AppendIndexHeader(e.out, 0, n), number)
		out[len(e.out)] = byte(kind)
		e.out, n = out, n+1
	}
	err := eachField(message, func(f protoField) *DecodeError {
		switch {
		case f.is(number, kind):
			element(f.value)
		case f.is(number, protowire.BytesType):
			for packed := f.bytes; len(packed) > 0; {
				one, size := protowire.ConsumeVarint(packed)
				if kind == protowire.Fixed64Type {
					one, size = protowire.ConsumeFixed64(packed)
				}
				if size < 0 {
					return newError(NotOTLP, name, "a list of numbers cannot be decoded: its last %d bytes are damaged or incomplete", len(packed))
				}
				element(one)
				packed = packed[size:]
			}
		}
		return nil
	})
	e.endOrDrop(start, name)
	return err
}

// quantiles appends the quantiles of a summary.
func (e *otlpEvent) quantiles(message []byte, l *otlpLayout) *DecodeError {
	const quantileField, valueField = 1, 2
	start, n := e.open(bson.TypeArray, "quantiles"), 0
	err := eachField(message, func(f protoField) *DecodeError {
		if !f.is(l.quantile, protowire.BytesType) {
			return nil
		}
		var quantile, value uint64
		if err := eachField(f.bytes, func(f protoField) *DecodeError {
			switch {
			case f.is(quantileField, protowire.Fixed64Type):
				quantile = f.value
			case f.is(valueField, protowire.Fixed64Type):
				value = f.value
			}
			return nil
		}); err != nil {
			return err
		}
		e.out = rawbson.AppendIndexHeader(e.out, bson.TypeEmbeddedDocument, n)
		n++
		inside := len(e.out)
		e.out = append(e.out, 0, 0, 0, 0)
		e.double("q", quantile)
		e.double("value", value)
		e.end(inside)
		return nil
	})
	e.endOrDrop(start, "quantiles")
	return err
}
