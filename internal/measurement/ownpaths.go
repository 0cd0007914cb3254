package measurement

// The names of the parts of a line's event.
const (
	lineTime   = "timestamp"
	lineFields = "fields"
)

var (
	lineMeta = []string{"name", "tags"}
	otlpMeta = []string{"kind", "name", "unit", "temporality", "monotonic", "resource", "scope", "attributes"}
)

// DefaultPaths returns the paths that a format implies. False means that the format implies none.
func DefaultPaths(f Format) (o Options, known bool) {
	switch f {
	case Influx:
		return Options{TimeField: lineTime, MetaFields: lineMeta, Fields: lineFields}, true
	case OTLP, OTLPJSON:
		return Options{TimeField: "time", MetaFields: otlpMeta}, true
	}
	return Options{}, false
}
