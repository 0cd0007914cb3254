package check

import (
	"encoding/json"
	"slices"
	"strings"

	"waterwheel/measurement"
)

// shape is a form of events that is known. Options are to be tried; none: it cannot be stored as it is, and why says so.
type shape struct {
	name    string
	options []measurement.Options
	why     string
}

// shapes are the known forms that the events may have, the most particular first.
func (p *proposer) shapes() (list []shape) {
	base := p.base()
	objects, name := p.objects, ""
	if len(objects) == 0 {
		return nil
	}
	if most(objects, isConnect) {
		base.Root, name = "payload", "Kafka Connect's envelope"
		objects = within(objects, "payload")
	}
	if most(objects, isDebezium) {
		return append(list, p.debezium(base, objects))
	}
	for _, known := range []func(measurement.Options, []object) (shape, bool){p.telegraf, p.otlp, p.dataPoint, p.ticker} {
		if one, ok := known(base, objects); ok {
			if name != "" {
				one.name += " in " + name
			}
			list = append(list, one)
		}
	}
	if name == "" {
		name = "flat events"
	}
	return append(list, shape{name: name, options: p.flat(base, objects)})
}

func isConnect(o object) bool {
	_, hasSchema := o["schema"]
	_, isObject := o["payload"].(object)
	return hasSchema && isObject && len(o) == 2
}

func isDebezium(o object) bool {
	_, hasSource := o["source"].(object)
	_, hasOperation := o["op"].(string)
	_, hasAfter := o["after"]
	return hasSource && hasOperation && hasAfter
}

// debezium are the changes of rows: what a row is afterwards is the event, and the time is the row's, else the change's.
func (p *proposer) debezium(base measurement.Options, changes []object) shape {
	envelope := "/"
	if base.Root != "" {
		envelope += base.Root + "."
	}
	base.Root = strings.TrimPrefix(envelope, "/") + "after"
	rows := within(changes, "after")
	if len(rows) < judgedValues { // too few to see whether the row's number is one of its series
		p.without = "id"
	}
	return shape{name: "Debezium's changes of rows", options: p.flat(base, rows, envelope+"source.ts_ms", envelope+"ts_ms")}
}

// flat are events whose time and identity are fields like others; others are paths where the time may be besides.
func (p *proposer) flat(base measurement.Options, list []object, others ...string) []measurement.Options {
	found := p.timeOf(base, list, others...)
	base.TimeField, base.TimeFormat = found.path, found.format
	if found.path == "" {
		base.TimeFormat = "auto"
	}
	p.describeMeta(&base, list)
	return []measurement.Options{base}
}

// telegraf is what Telegraf's serializer "json" writes.
func (p *proposer) telegraf(base measurement.Options, list []object) (shape, bool) {
	const name = "Telegraf's events"
	if most(list, func(o object) bool { _, ok := o["metrics"].([]any); return ok && len(o) == 1 }) {
		return shape{name: name, why: "these are Telegraf's batches, many measurements an object: set use_batch_format = false in its Kafka output"}, true
	}
	is := func(o object) bool {
		_, fields := o["fields"].(object)
		_, named := o["name"].(string)
		_, tags := o["tags"].(object)
		return fields && named && tags && o["timestamp"] != nil
	}
	if !most(list, is) {
		return shape{}, false
	}
	base.MetaFields, base.Fields = []string{"name", "tags"}, "fields"
	found := p.timeOf(base, list, "timestamp")
	base.TimeField, base.TimeFormat = "timestamp", found.format
	return shape{name: name, options: []measurement.Options{base}}, true
}

// otlp are requests of OpenTelemetry's protocol as JSON, as its collector writes them to Kafka.
func (p *proposer) otlp(_ measurement.Options, list []object) (shape, bool) {
	for _, name := range []string{"resourceMetrics", "resourceLogs", "resourceSpans", "resource_metrics"} {
		if most(list, func(o object) bool { _, ok := o[name].([]any); return ok }) {
			return shape{name: "OpenTelemetry's requests", why: "each record is a request of OpenTelemetry's protocol (" + name +
				"), with many data points in lists within lists: no settings make measurements of them. Send one data point a record, or an array of them"}, true
		}
	}
	return shape{}, false
}

// dataPoint is one data point of OpenTelemetry a record: its name, attributes, time and value.
func (p *proposer) dataPoint(base measurement.Options, list []object) (shape, bool) {
	const name = "OpenTelemetry's data points"
	is := func(o object) bool {
		_, named := o["name"].(string)
		return named && o["attributes"] != nil && (o["timeUnixNano"] != nil || o["time"] != nil && o["kind"] != nil)
	}
	if !most(list, is) {
		return shape{}, false
	}
	if most(list, func(o object) bool { _, ok := o["attributes"].([]any); return ok }) {
		return shape{name: name, why: "their attributes are a list of keys and values, in which no path leads to one of them: send attributes as an object"}, true
	}
	found := p.timeOf(base, list)
	base.TimeField, base.TimeFormat = found.path, found.format
	for _, part := range []string{"serviceName", "resource", "name", "unit", "attributes"} {
		if most(list, func(o object) bool { return o[part] != nil }) {
			base.MetaFields = append(base.MetaFields, part)
		}
	}
	for _, constant := range []string{"description", "schemaUrl", "startTime", "startTimeUnixNano"} {
		if slices.ContainsFunc(list, func(o object) bool { return o[constant] != nil }) {
			base.Drop = append(base.Drop, constant)
		}
	}
	return shape{name: name, options: []measurement.Options{base}}, true
}

// ticker are prices of what is traded.
func (p *proposer) ticker(base measurement.Options, list []object) (shape, bool) {
	const symbols, prices, places = "symbol instrument pair productid ticker sym s", "price last bid ask p c close rate", "exchange venue market"
	var parts []metaPart
	priced := false
	for _, l := range leavesOf(list, 1) {
		name := plain(l.path)
		switch {
		case l.seen*10 < len(list)*9:
		case l.texts == l.seen && in(symbols, name):
			part := metaPart{lastName(l.path), l.path}
			if len(part.name) == 1 {
				part.name = "symbol"
			}
			parts = slices.Insert(parts, 0, part)
		case l.texts == l.seen && in(places, name):
			parts = append(parts, metaPart{lastName(l.path), l.path})
		case in(prices, name):
			priced = priced || isNumber(l.example)
		}
	}
	if !priced || len(parts) == 0 || !in(symbols, plain(parts[0].path)) {
		return shape{}, false
	}
	found := p.timeOf(base, list)
	base.TimeField, base.TimeFormat, base.MetaFields = found.path, found.format, settings(parts)
	return shape{name: "a ticker", options: []measurement.Options{base}}, true
}

// isNumber tells whether a value is a number, also one in a text.
func isNumber(value any) bool {
	switch v := value.(type) {
	case json.Number:
		return true
	case string:
		return json.Unmarshal([]byte(v), new(float64)) == nil
	}
	return false
}
