package check

import (
	"fmt"
	"slices"
	"strings"

	"waterwheel/internal/measurement"
)

// view is the evidence of one object of the events, or of the whole events. The object is the root that settings name.
type view struct {
	*evidence
	root string // absolute path. Empty means the event's top.
	n    int    // number of events that have it
}

// whole returns the view of the whole events.
func (e *evidence) whole() view { return view{evidence: e, n: e.objects} }

// below returns the view of an object in this one.
func (v view) below(path string) view {
	return view{evidence: v.evidence, root: v.absolute(path), n: v.field(path).objects}
}

// absolute converts a path of this view to a path from the event's top. A path that begins with a slash begins there already.
func (v view) absolute(path string) string {
	if whole, ok := strings.CutPrefix(path, "/"); ok {
		return whole
	}
	switch "" {
	case v.root:
		return path
	case path:
		return v.root
	}
	return v.root + "." + path
}

// field returns the statistics of a path.
func (v view) field(path string) *field { return v.at(v.absolute(path)) }

// leaf is a field with its path in a view.
type leaf struct {
	*field
	path string
}

// leaves returns the fields of a view, sorted by path.
func (v view) leaves() (list []leaf) {
	prefix := v.absolute("")
	if prefix != "" {
		prefix += "."
	}
	for _, f := range v.list() {
		if path, ok := strings.CutPrefix(f.path, prefix); ok {
			list = append(list, leaf{f, path})
		}
	}
	return list
}

// scalars returns the fields that are not in lists and hold neither objects nor lists.
func (v view) scalars() (list []leaf) {
	for _, l := range v.leaves() {
		if !strings.Contains(l.path, "[]") && l.texts+l.numbers+l.flags+l.nulls == l.seen {
			list = append(list, l)
		}
	}
	return list
}

// These are kinds of values, for has.
const (
	anything = iota
	aText
	anObject
	aList
	aNumber
)

// has reports whether nearly all events have a field of some kind.
func (v view) has(path string, kind int) bool {
	f := v.field(path)
	n := [...]int{f.seen - f.nulls, f.texts, f.objects, f.lists, f.numbers}[kind]
	return v.n > 0 && n*10 >= v.n*9
}

// hasAll is has for several fields.
func (v view) hasAll(kind int, paths ...string) bool {
	return !slices.ContainsFunc(paths, func(path string) bool { return !v.has(path, kind) })
}

// names returns the names at the top of a view.
func (v view) names() (list []string) {
	for _, l := range v.leaves() {
		if !strings.ContainsAny(l.path, ".[") {
			list = append(list, l.path)
		}
	}
	return list
}

// form is a known form of events, or a description of any other form.
type form struct {
	name string
	view view
	// options are the known settings: format, framing, root, fields, drop.
	options measurement.Options
	// times are paths of the time, which come before any that are found. later are paths of the time if no other is found.
	times, later []string
	// parts are the parts of meta, and group is one object that is meta. If both are empty, meta must be found.
	parts []metaPart
	group string
	// rowKeys means that the records' keys are those of a table's rows.
	rowKeys bool
	// within means that meta may have additional parts from inside the events.
	within bool
	// text is the absolute path of a text that holds the events as JSON, and list that of a list of them. Empty means that the
	// events are not in one. envelope is the path of the object with the events, in a known envelope.
	text, list, envelope string
	// why says why no settings store the events. Empty means that some do.
	why string
}

// known are the functions that recognize a form, the most specific first.
var known = []func(form) (form, bool){debezium, cloudEvents, telegraf, otlpPoints, otlp, dataPoint, thingsStack, chirpStack, prometheus, texts, readings, columns, ticker}

// form returns the form of the events of a sample.
func (e *evidence) form(base measurement.Options) form {
	f := form{name: "flat events", view: e.whole(), options: base}
	envelope := ""
	if names := f.view.names(); len(names) == 2 && f.view.has("schema", anything) && f.view.has("payload", anObject) {
		envelope = "Kafka Connect's envelope"
		f.name, f.view, f.options.Root, f.envelope = envelope, f.view.below("payload"), "payload", "payload"
	}
	for _, is := range known {
		if one, ok := is(f); ok {
			if envelope != "" {
				one.name += " in " + envelope
			}
			return one
		}
	}
	return f
}

// debezium recognizes changes of rows. The new row is the event. The time is the row's, or else the change's.
func debezium(f form) (form, bool) {
	v := f.view
	if !v.has("source", anObject) || !v.has("op", aText) || v.field("after").seen*10 < v.n*9 {
		return f, false
	}
	f.name, f.rowKeys = "Debezium's changes of rows", true
	if after := v.field("after"); after.texts > after.objects {
		f.text = v.absolute("after")
		return f, true
	}
	f.later = []string{"/" + v.absolute("source.ts_ms"), "/" + v.absolute("ts_ms")}
	f.options.Root = v.absolute("after")
	f.view = v.below("after")
	return f, true
}

// cloudEvents recognizes CloudEvents in structured mode. Their id identifies an event.
func cloudEvents(f form) (form, bool) {
	v := f.view
	if !v.hasAll(aText, "specversion", "id", "source", "type") {
		return f, false
	}
	f.name = "CloudEvents"
	name := "data"
	if v.field("data_base64").seen*2 > v.n {
		name = "data_base64"
	}
	data := v.field(name)
	switch {
	case data.objects*2 > v.n:
	case data.texts*2 > v.n && data.documents == data.texts:
		f.text = v.absolute(name)
		return f, true
	default:
		f.why = "these are CloudEvents in which " + name + " is neither an object nor a text that holds JSON: send data as a JSON object"
		return f, true
	}
	f.options.Root, f.view, f.within = v.absolute(name), v.below(name), true
	if v.field("time").texts > 0 {
		f.times = []string{"/" + v.absolute("time")}
	}
	f.parts = []metaPart{{"source", "/" + v.absolute("source")}}
	if subject := v.field("subject"); subject.texts > 0 && !(candidate{leaf: leaf{field: subject}, back: subject.values.returning()}).fleeting() {
		f.parts = append(f.parts, metaPart{"subject", "/" + v.absolute("subject")})
	}
	return f, true
}

// telegraf recognizes the output of Telegraf's serializer "json", and lines, which are read as its events.
func telegraf(f form) (form, bool) {
	v := f.view
	f.name = "Telegraf's events"
	isLine := f.options.Format == measurement.Influx
	if !isLine && (!v.hasAll(anObject, "fields", "tags") || !v.has("name", aText) || !v.has("timestamp", anything)) {
		return f, false
	}
	f.options.Fields, f.times = "fields", []string{"timestamp"}
	f.parts = []metaPart{{"name", "name"}, {"tags", "tags"}}
	return f, true
}

// otlp recognizes requests of OpenTelemetry's protocol as JSON, as its collector writes them to Kafka.
func otlp(f form) (form, bool) {
	for _, name := range []string{"resourceMetrics", "resourceLogs", "resourceSpans", "resource_metrics"} {
		if f.view.has(name, aList) {
			f.name = "OpenTelemetry's requests"
			f.why = "each record is a request of OpenTelemetry's protocol (" + name +
				"), with many data points in lists inside lists: no settings can make measurements of them. Send one data point per record, or an array of them"
			return f, true
		}
	}
	return f, false
}

// otlpPoints recognizes the data points of requests that were read in their own format.
func otlpPoints(f form) (form, bool) {
	o, known := measurement.DefaultPaths(f.options.Format)
	if !known || f.options.Format == measurement.Influx {
		return f, false
	}
	f.name, f.times = "OpenTelemetry's requests", []string{o.TimeField}
	for _, name := range o.MetaFields {
		f.parts = append(f.parts, metaPart{name, name})
	}
	return f, true
}

// dataPoint recognizes single data points of OpenTelemetry: name, attributes, time and value.
func dataPoint(f form) (form, bool) {
	v := f.view
	if !v.has("name", aText) || !v.has("attributes", anything) || !v.has("timeUnixNano", anything) && !v.hasAll(anything, "time", "kind") {
		return f, false
	}
	f.name = "OpenTelemetry's data points"
	if v.has("attributes", aList) {
		f.why = "their attributes are a list of keys and values, and no path can lead to a single attribute: send attributes as an object"
		return f, true
	}
	for _, part := range []string{"serviceName", "resource", "name", "unit", "attributes"} {
		if v.has(part, anything) {
			f.parts = append(f.parts, metaPart{part, part})
		}
	}
	for _, constant := range []string{"description", "schemaUrl", "startTime", "startTimeUnixNano"} {
		if v.field(constant).seen > 0 {
			f.options.Drop = append(f.options.Drop, constant)
		}
	}
	return f, true
}

// thingsStack recognizes the uplinks of The Things Stack, a LoRaWAN network server. Other messages may lie between them.
func thingsStack(f form) (form, bool) {
	const payload = "uplink_message.decoded_payload"
	v := f.view
	if !v.hasAll(aText, "end_device_ids.device_id", "received_at") || v.field(payload).objects == 0 {
		return f, false
	}
	f.name, f.options.Fields, f.times = "The Things Stack's uplinks", payload, []string{"received_at"}
	f.parts = []metaPart{{"device", "end_device_ids.device_id"}}
	if v.has("end_device_ids.application_ids.application_id", aText) {
		f.parts = append(f.parts, metaPart{"app", "end_device_ids.application_ids.application_id"})
	}
	return f, true
}

// chirpStack recognizes the uplinks of ChirpStack, a LoRaWAN network server.
func chirpStack(f form) (form, bool) {
	v := f.view
	if !v.has("deviceInfo.devEui", aText) || v.field("object").objects == 0 {
		return f, false
	}
	f.name, f.options.Fields = "ChirpStack's uplinks", "object"
	f.parts = []metaPart{{"devEui", "deviceInfo.devEui"}}
	if v.has("deviceInfo.applicationName", aText) {
		f.parts = append(f.parts, metaPart{"application", "deviceInfo.applicationName"})
	}
	return f, true
}

// prometheus recognizes samples of Prometheus, as its adapter for Kafka writes them.
func prometheus(f form) (form, bool) {
	v := f.view
	if !v.has("labels", anObject) || !v.hasAll(anything, "timestamp", "value") || !v.has("name", aText) || v.field("labels.__name__").texts == 0 {
		return f, false
	}
	f.name, f.times, f.group = "Prometheus samples", []string{"timestamp"}, "labels"
	f.options.Drop = []string{"name"} // labels contain it as well
	return f, true
}

// readings recognizes events whose measurements lie in a list of objects.
func readings(f form) (form, bool) {
	list := f.view.readings()
	if list == "" || f.view.measures() {
		return f, false
	}
	f.name, f.list = "events with a list of readings", f.view.absolute(list)
	return f, true
}

// readings returns the list of readings. Half of the events have it, and its objects contain a number. Empty means that there is
// none.
func (v view) readings() string {
	for _, l := range v.leaves() {
		if l.rows*2 < v.n || strings.Contains(l.path, "[]") {
			continue
		}
		for _, inner := range v.leaves() {
			if strings.HasPrefix(inner.path, l.path+"[].") && inner.numbers+inner.flags+inner.numerals > 0 {
				return l.path
			}
		}
	}
	return ""
}

// measures reports whether the events have a measured value outside of lists.
func (v view) measures() bool {
	return slices.ContainsFunc(v.scalars(), func(l leaf) bool {
		c := classOf(l.path)
		isValue := l.numbers > 0 || l.flags > 0 || l.numerals > 0
		return isValue && timeRank(l) == 0 && c != thing && c != carrier && c != weak && c != named && c != passing && c != state
	})
}

// columns recognizes events whose time is a list, beside lists of values.
func columns(f form) (form, bool) {
	var times leaf
	for _, l := range f.view.leaves() {
		l.path = strings.TrimSuffix(l.path, "s") // timestamps
		if l.lists*10 >= f.view.n*9 && l.rows == 0 && l.longest > 1 && timeRank(l) > 0 && (times.field == nil || timeRank(l) < timeRank(times)) {
			times = l
		}
	}
	if times.field == nil || f.view.hasScalarTime() {
		return f, false
	}
	f.name = "events with a list of times"
	f.why = fmt.Sprintf("the times are the list %s, and the values are other lists: no setting can split such lists. Send one reading per record, or an array of readings", times.field.path)
	return f, true
}

// hasScalarTime reports whether a field that is not a list looks like a time.
func (v view) hasScalarTime() bool {
	return slices.ContainsFunc(v.scalars(), func(l leaf) bool { return timeRank(l) > 0 && (l.texts+l.numbers)*2 >= v.n })
}

// ticker recognizes prices of traded goods.
func ticker(f form) (form, bool) {
	const symbols, prices, places = "symbol instrument pair productid ticker sym s", "price last bid ask p c close rate", "exchange venue market x"
	var parts []metaPart
	priced := false
	for _, l := range f.view.scalars() {
		name := plain(l.path)
		short := len(name) == 1
		part := func(ifShort string) metaPart {
			if short {
				return metaPart{ifShort, l.path}
			}
			return metaPart{lastName(l.path), l.path}
		}
		switch {
		case l.seen*10 < f.view.n*9 || strings.Contains(l.path, "."):
		case l.texts == l.seen && in(symbols, name) && (!short || isSymbol(l.text.text)):
			parts = slices.Insert(parts, 0, part("symbol"))
		case l.texts == l.seen && in(places, name):
			parts = append(parts, part("exchange"))
		case in(prices, name):
			priced = priced || l.numbers+l.numerals > 0
		}
	}
	if !priced || len(parts) == 0 || !in(symbols, plain(parts[0].path)) || f.view.hasThing() {
		return f, false
	}
	f.name, f.parts, f.later = "tickers", parts, []string{"E", "T"}
	return f, true
}

// isSymbol reports whether a text is written like the symbols of exchanges.
func isSymbol(text string) bool {
	return len(text) > 1 && text == strings.ToUpper(text) && strings.ToLower(text) != text
}

// hasThing reports whether the name of a field identifies what is measured.
func (v view) hasThing() bool {
	return slices.ContainsFunc(v.scalars(), func(l leaf) bool { return classOf(l.path) == thing })
}
