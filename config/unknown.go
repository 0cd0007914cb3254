package config

import (
	"regexp"
	"slices"
	"strings"
)

// prefixes begin the names that are ours: a variable with one of them that we do not know may be a mistake.
var prefixes = []string{
	"KAFKA_", "MONGODB_", "EVENT_", "BUCKET_", "FLUSH_", "COMMIT_", "DLQ_", "HTTP_", "PPROF_", "LOG_", "SERIES_", "MEMORY_",
	"SHUTDOWN_", "START_", "META_", "SEGMENT", "SETTLE_",
}

// serviceLink matches the variables that Kubernetes and Docker add for a service that happens to be called "kafka" or
// "mongodb".
var serviceLink = regexp.MustCompile(`_SERVICE_HOST$|_SERVICE_PORT(_[A-Z0-9_]+)?$|_PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?$`)

// foreignNames are the system's own, the proxy that many programs know and what systemd tells its services, and what
// Kafka's own tools read: they are used from the same shells.
var foreignNames = []string{
	"HTTP_PROXY", "MEMORY_PRESSURE_WATCH", "MEMORY_PRESSURE_WRITE",
	"KAFKA_OPTS", "KAFKA_HEAP_OPTS", "KAFKA_HOME", "KAFKA_LOG4J_OPTS", "KAFKA_JMX_OPTS", "KAFKA_JVM_PERFORMANCE_OPTS", "LOG_DIR",
}

// foreign tells whether a variable with one of our prefixes is somebody else's all the same.
func foreign(name, value string) bool {
	return slices.Contains(foreignNames, name) || serviceLink.MatchString(name) ||
		strings.HasSuffix(name, "_PORT") && strings.Contains(value, "://")
}

// unknown finds the variables that look like ours and are not: misspelt names are problems, all others may be of another
// program in the same environment, as COMMIT_SHA and LOG_FILE are.
func unknown(environ []string, known []field) (misspelt []Problem, strange []string) {
	var names []string
	for i := range known {
		names = append(names, known[i].name())
	}
	for _, entry := range slices.Sorted(slices.Values(environ)) {
		name, value, _ := strings.Cut(entry, "=")
		setting, _ := strings.CutSuffix(name, fileSuffix)
		if !isOurs(name) || foreign(name, value) || slices.Contains(names, name) || slices.Contains(names, setting) {
			continue
		}
		near := nearest(name, names)
		if near == "" && isOurs(setting) {
			near = nearest(setting, names)
		}
		if near != "" {
			misspelt = append(misspelt, Problem{Variable: name, Message: "no such setting: did you mean " + near + "?"})
		} else {
			strange = append(strange, name)
		}
	}
	return misspelt, strange
}

func isOurs(name string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(name, p) })
}

// Strange lists the variables that begin like settings, are none, and are not misspelt ones either.
func Strange(environ []string) []string {
	_, strange := unknown(environ, fields(&Config{}))
	return strange
}

// nearest is the setting that a name was probably meant to be: one that goes on where the name ends, or that differs in the
// underscores or in a letter or two. Empty: none.
func nearest(name string, known []string) string {
	letters := func(s string) string { return strings.ReplaceAll(s, "_", "") }
	best, least := "", 2+len(name[strings.IndexByte(name, '_')+1:])/6
	for _, k := range known {
		if strings.HasPrefix(k, name+"_") || letters(k) == letters(name) {
			return k
		}
		if d := distance(name, k); d < least {
			best, least = k, d
		}
	}
	return best
}

// distance counts the inserted, deleted and replaced bytes between two names.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(diagonal+cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
