package config

import (
	"regexp"
	"slices"
	"strings"
)

// prefixes begin the names that are ours: a variable with one of them that we do not know is a mistake.
func prefixes() []string {
	return []string{
		"KAFKA_", "MONGODB_", "EVENT_", "BUCKET_", "FLUSH_", "COMMIT_", "DLQ_", "HTTP_", "PPROF_", "LOG_", "SERIES_", "MEMORY_",
		"SHUTDOWN_",
	}
}

// serviceLink matches the variables that Kubernetes and Docker add for a service that happens to be called "kafka" or
// "mongodb".
var serviceLink = regexp.MustCompile(`_SERVICE_HOST$|_SERVICE_PORT(_[A-Z0-9_]+)?$|_PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?$`)

// systemNames are the system's own: the proxy that many programs know, and what systemd tells its services.
func systemNames() []string {
	return []string{"HTTP_PROXY", "MEMORY_PRESSURE_WATCH", "MEMORY_PRESSURE_WRITE"}
}

// toolNames are what Kafka's own tools read: they are used from the same shells.
func toolNames() []string {
	return []string{
		"KAFKA_OPTS", "KAFKA_HEAP_OPTS", "KAFKA_HOME", "KAFKA_LOG4J_OPTS", "KAFKA_JMX_OPTS", "KAFKA_JVM_PERFORMANCE_OPTS", "LOG_DIR",
	}
}

// foreign tells whether a variable with one of our prefixes is somebody else's all the same.
func foreign(name, value string) bool {
	return slices.Contains(systemNames(), name) || slices.Contains(toolNames(), name) || serviceLink.MatchString(name) ||
		strings.HasSuffix(name, "_PORT") && strings.Contains(value, "://")
}

// unknown finds the variables that look like ours and are not.
func unknown(environ []string, known []field) []Problem {
	var names []string
	for i := range known {
		names = append(names, known[i].name())
	}
	var problems []Problem
	for _, entry := range slices.Sorted(slices.Values(environ)) {
		name, value, _ := strings.Cut(entry, "=")
		ours := slices.ContainsFunc(prefixes(), func(p string) bool { return strings.HasPrefix(name, p) })
		if !ours || foreign(name, value) || slices.Contains(names, name) || slices.Contains(names, strings.TrimSuffix(name, fileSuffix)) {
			continue
		}
		message := "no such setting"
		if near := nearest(name, names); near != "" {
			message += ": did you mean " + near + "?"
		}
		problems = append(problems, Problem{Variable: name, Message: message})
	}
	return problems
}

// nearest is the known name that begins with this one, or takes the fewest edits to reach, if they are few.
func nearest(name string, known []string) string {
	best, least := "", len(name)/2+1
	for _, k := range known {
		if strings.HasPrefix(k, name) {
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
