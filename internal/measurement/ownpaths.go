package measurement

// The names of the parts of lines as events.
const (
	lineTime   = "timestamp"
	lineFields = "fields"
)

var (
	lineMeta = []string{"name", "tags"}
	otlpMeta = []string{"kind", "name", "unit", "temporality", "monotonic", "resource", "scope", "attributes"}
)

// DefaultPaths are the paths that a format's events have by themselves; other formats have none.
func DefaultPaths(f Format) (o Options, known bool) {
	switch f {
	case Influx:
		return Options{TimeField: lineTime, MetaFields: lineMeta, Fields: lineFields}, true
	case OTLP, OTLPJSON:
		return Options{TimeField: "time", MetaFields: otlpMeta}, true
	}
	return Options{}, false
}
