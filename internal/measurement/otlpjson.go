package measurement

import (
	"encoding/base64"
	"math"
	"slices"
	"strconv"

	"go.mongodb.org/mongo-driver/v2/bson"
	"google.golang.org/protobuf/encoding/protowire"

	"waterwheel/internal/timeseries/rawbson"
)

// otlpType says how a field of the protocol is written in Protobuf.
type otlpType uint8

const (
	inMessage otlpType = iota
	inText
	inBytes // base64 in JSON
	inDouble
	inFixed  // a fixed number of 64 bits, a text in JSON
	inVarint // integers, flags, and enumerations
	inZigZag
)

// otlpField is a field of the protocol.
type otlpField struct {
	number  protowire.Number
	kind    otlpType
	message string // the name of the field's message type
}

// otlpMessages are the messages of requests with metrics. The fields are under the names that they have in JSON.
var otlpMessages = map[string]map[string]otlpField{
	"Request":         {"resourceMetrics": {otlpResourceMetrics, inMessage, "ResourceMetrics"}},
	"ResourceMetrics": {"resource": {otlpResource, inMessage, "Resource"}, "scopeMetrics": {otlpScopeMetrics, inMessage, "ScopeMetrics"}},
	"Resource":        {"attributes": {1, inMessage, "KeyValue"}},
	"ScopeMetrics":    {"scope": {otlpScope, inMessage, "Scope"}, "metrics": {otlpMetrics, inMessage, "Metric"}},
	"Scope":           {"name": {1, inText, ""}, "version": {2, inText, ""}, "attributes": {3, inMessage, "KeyValue"}},
	"Metric": {
		"name": {otlpName, inText, ""}, "unit": {otlpUnit, inText, ""}, "gauge": {otlpGauge, inMessage, "Numbers"}, "sum": {otlpSum, inMessage, "Numbers"},
		"histogram": {otlpHistogram, inMessage, "Histogram"}, "exponentialHistogram": {otlpExponential, inMessage, "Exponential"},
		"summary": {otlpSummary, inMessage, "Summary"},
	},
	"Numbers": {
		"dataPoints": {otlpDataPoints, inMessage, "NumberPoint"}, "aggregationTemporality": {otlpTemporality, inVarint, ""},
		"isMonotonic": {otlpMonotonic, inVarint, ""},
	},
	"Histogram":   {"dataPoints": {otlpDataPoints, inMessage, "HistogramPoint"}, "aggregationTemporality": {otlpTemporality, inVarint, ""}},
	"Exponential": {"dataPoints": {otlpDataPoints, inMessage, "ExponentialPoint"}, "aggregationTemporality": {otlpTemporality, inVarint, ""}},
	"Summary":     {"dataPoints": {otlpDataPoints, inMessage, "SummaryPoint"}},
	"NumberPoint": {
		"attributes": {7, inMessage, "KeyValue"}, "startTimeUnixNano": {otlpStart, inFixed, ""}, "timeUnixNano": {otlpTime, inFixed, ""},
		"asDouble": {4, inDouble, ""}, "asInt": {6, inFixed, ""}, "flags": {8, inVarint, ""},
	},
	"HistogramPoint": {
		"attributes": {9, inMessage, "KeyValue"}, "startTimeUnixNano": {otlpStart, inFixed, ""}, "timeUnixNano": {otlpTime, inFixed, ""},
		"count": {4, inFixed, ""}, "sum": {5, inDouble, ""}, "bucketCounts": {6, inFixed, ""}, "explicitBounds": {7, inDouble, ""},
		"flags": {10, inVarint, ""}, "min": {11, inDouble, ""}, "max": {12, inDouble, ""},
	},
	"ExponentialPoint": {
		"attributes": {1, inMessage, "KeyValue"}, "startTimeUnixNano": {otlpStart, inFixed, ""}, "timeUnixNano": {otlpTime, inFixed, ""},
		"count": {4, inFixed, ""}, "sum": {5, inDouble, ""}, "scale": {6, inZigZag, ""}, "zeroCount": {7, inFixed, ""},
		"positive": {8, inMessage, "Buckets"}, "negative": {9, inMessage, "Buckets"}, "flags": {10, inVarint, ""}, "min": {12, inDouble, ""},
		"max": {13, inDouble, ""}, "zeroThreshold": {14, inDouble, ""},
	},
	"Buckets": {"offset": {1, inZigZag, ""}, "bucketCounts": {2, inVarint, ""}},
	"SummaryPoint": {
		"attributes": {7, inMessage, "KeyValue"}, "startTimeUnixNano": {otlpStart, inFixed, ""}, "timeUnixNano": {otlpTime, inFixed, ""},
		"count": {4, inFixed, ""}, "sum": {5, inDouble, ""}, "quantileValues": {6, inMessage, "Quantile"}, "flags": {8, inVarint, ""},
	},
	"Quantile": {"quantile": {1, inDouble, ""}, "value": {2, inDouble, ""}},
	"KeyValue": {"key": {1, inText, ""}, "value": {2, inMessage, "Any"}},
	"Any": {
		"stringValue": {1, inText, ""}, "boolValue": {2, inVarint, ""}, "intValue": {3, inVarint, ""}, "doubleValue": {4, inDouble, ""},
		"arrayValue": {5, inMessage, "Anys"}, "kvlistValue": {6, inMessage, "KeyValues"}, "bytesValue": {7, inBytes, ""},
	},
	"Anys":      {"values": {1, inMessage, "Any"}},
	"KeyValues": {"values": {1, inMessage, "KeyValue"}},
}

// appendOTLP appends a message that came as JSON in Protobuf's encoding. It leaves out unknown fields.
func appendOTLP(dst, document []byte, message string, depth int) (out []byte, err *DecodeError) {
	for e := range rawbson.All(rawbson.Content(document)) {
		f, known := otlpMessages[message][string(e.Name)]
		if !known || e.Kind == bson.TypeNull {
			continue
		}
		if e.Kind == bson.TypeArray {
			i := 0
			for one := range rawbson.All(rawbson.Content(e.Value)) {
				if dst, err = f.append(dst, one, depth); err != nil {
					err = err.within(strconv.Itoa(i))
					break
				}
				i++
			}
		} else {
			dst, err = f.append(dst, e, depth)
		}
		if err != nil {
			return dst, err.within(string(e.Name))
		}
	}
	return dst, nil
}

// append appends a field with a value.
func (f otlpField) append(dst []byte, e rawbson.Element, depth int) ([]byte, *DecodeError) {
	wrong := func(what string) ([]byte, *DecodeError) {
		return dst, newError(NotOTLP, "", "%s has the wrong type: OpenTelemetry's protocol requires the type %s here", quoteValue(e.Kind, e.Value), what)
	}
	switch f.kind {
	case inMessage:
		if e.Kind != bson.TypeEmbeddedDocument {
			return wrong("object")
		}
		if depth > maxDepth {
			return dst, tooDeep("")
		}
		message, err := appendOTLP(nil, e.Value, f.message, depth+1)
		return protowire.AppendBytes(protowire.AppendTag(dst, f.number, protowire.BytesType), message), err
	case inText, inBytes:
		if e.Kind != bson.TypeString {
			return wrong("text")
		}
		text := rawbson.Text(e.Value)
		if f.kind == inBytes {
			var err error
			if text, err = base64.StdEncoding.AppendDecode(nil, text); err != nil {
				return wrong("base64")
			}
		}
		return protowire.AppendBytes(protowire.AppendTag(dst, f.number, protowire.BytesType), text), nil
	case inDouble:
		value, ok := doubleOf(e)
		if !ok {
			return wrong("number")
		}
		return protowire.AppendFixed64(protowire.AppendTag(dst, f.number, protowire.Fixed64Type), math.Float64bits(value)), nil
	}
	value, ok := wholeOf(e)
	switch {
	case !ok:
		return wrong("integer of 64 bits")
	case f.kind == inFixed:
		return protowire.AppendFixed64(protowire.AppendTag(dst, f.number, protowire.Fixed64Type), value), nil
	case f.kind == inZigZag:
		value = protowire.EncodeZigZag(int64(value))
	}
	return protowire.AppendVarint(protowire.AppendTag(dst, f.number, protowire.VarintType), value), nil
}

// doubleOf returns a number, or the number that a text writes in the JSON form of Protobuf.
func doubleOf(e rawbson.Element) (float64, bool) {
	switch e.Kind {
	case bson.TypeDouble:
		return bson.RawValue{Type: e.Kind, Value: e.Value}.DoubleOK()
	case bson.TypeInt32, bson.TypeInt64:
		return float64(integerOf(e.Kind, e.Value)), true
	case bson.TypeString:
		value, err := strconv.ParseFloat(string(rawbson.Text(e.Value)), 64)
		return value, err == nil
	}
	return 0, false
}

// wholeOf returns the 64 bits of an integer, of an integer written as text, of a flag, or of a name in an enumeration.
func wholeOf(e rawbson.Element) (uint64, bool) {
	switch e.Kind {
	case bson.TypeInt32, bson.TypeInt64:
		return uint64(integerOf(e.Kind, e.Value)), true
	case bson.TypeBoolean:
		return uint64(e.Value[0]), true
	case bson.TypeDouble:
		value, _ := doubleOf(e)
		return uint64(value), value == math.Trunc(value) && value >= 0 && value < 1<<63
	case bson.TypeString:
		text := string(rawbson.Text(e.Value))
		if i := slices.Index([]string{"AGGREGATION_TEMPORALITY_UNSPECIFIED", "AGGREGATION_TEMPORALITY_DELTA", "AGGREGATION_TEMPORALITY_CUMULATIVE"}, text); i >= 0 {
			return uint64(i), true
		}
		if value, err := strconv.ParseUint(text, 10, 64); err == nil {
			return value, true
		}
		value, err := strconv.ParseInt(text, 10, 64)
		return uint64(value), err == nil
	}
	return 0, false
}

// otlpLists are the lists that lead to the data points. The empty name stands for the data of a metric.
var otlpLists = []string{"resourceMetrics", "scopeMetrics", "metrics", "", "dataPoints"}

// pickPoint returns a document of a level with only one of its data points. left counts the points before the wanted one. False
// means that the document has fewer points.
func pickPoint(document []byte, level int, left *int) (out []byte, found bool) {
	out = make([]byte, 4, len(document))
	data := dataOf(document)
	for e := range rawbson.All(rawbson.Content(document)) {
		switch {
		case otlpLists[level] == "" && string(e.Name) == data:
			if picked, ok := pickPoint(e.Value, level+1, left); ok {
				out, found = rawbson.AppendElement(out, e.Kind, e.Name, picked), true
			}
		case string(e.Name) != otlpLists[level] || e.Kind != bson.TypeArray && e.Kind != bson.TypeEmbeddedDocument:
			out = rawbson.AppendElement(out, e.Kind, e.Name, e.Value)
		case !found:
			list := e.Value
			if e.Kind == bson.TypeEmbeddedDocument { // appendOTLP reads an object as a list of one
				list = listOf(e.Value)
			}
			var picked []byte
			if picked, found = pickElement(list, level, left); found {
				out = rawbson.AppendElement(out, bson.TypeArray, e.Name, picked)
			}
		}
	}
	return rawbson.EndDocument(out, 0), found
}

// pickElement returns a list with only the element that has the data point.
func pickElement(list []byte, level int, left *int) (out []byte, found bool) {
	for e := range rawbson.All(rawbson.Content(list)) {
		picked := e.Value
		switch {
		case e.Kind != bson.TypeEmbeddedDocument:
			continue
		case level < len(otlpLists)-1:
			picked, found = pickPoint(e.Value, level+1, left)
		case *left == 0:
			found = true
		default:
			*left--
		}
		if found {
			return listOf(picked), true
		}
	}
	return nil, false
}

// listOf returns a list with one document.
func listOf(document []byte) []byte {
	return rawbson.EndDocument(rawbson.AppendElement(make([]byte, 4), bson.TypeEmbeddedDocument, []byte("0"), document), 0)
}

// dataOf returns the name of the last data of a metric. If a metric has several, only the last is read.
func dataOf(document []byte) (name string) {
	for e := range rawbson.All(rawbson.Content(document)) {
		if f := otlpMessages["Metric"][string(e.Name)]; f.kind == inMessage && f.number > 0 && e.Kind == bson.TypeEmbeddedDocument {
			name = string(e.Name)
		}
	}
	return name
}
