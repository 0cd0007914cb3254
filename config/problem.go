package config

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"waterwheel/internal/words"
)

// Problem is one thing wrong with the settings.
type Problem struct {
	// Variable is the setting's name.
	Variable string
	// Value is the setting's value, masked if it is a secret. Empty means that it is not set.
	Value string
	// Message says what is wrong and what would be right.
	Message string
}

// String formats the problem on one line.
func (p Problem) String() string {
	if p.Value == "" {
		return p.Variable + ": " + p.Message
	}
	return fmt.Sprintf("%s=%s: %s", p.Variable, p.Value, p.Message)
}

// Error lists everything that is wrong with the settings, in the order of the reference.
type Error struct {
	Problems []Problem
}

// Error returns one line for each problem.
func (e *Error) Error() string {
	lines := make([]string, 0, len(e.Problems))
	for _, p := range e.Problems {
		lines = append(lines, p.String())
	}
	return "wrong settings:\n  " + strings.Join(lines, "\n  ")
}

// Warning is about a setting that works but has a cost.
type Warning struct {
	// Setting is the setting's name and value.
	Setting string
	// Message says what the setting costs.
	Message string
	// WayOut says what to set instead.
	WayOut string
}

// Warnings returns the warnings that a start logs about the settings.
func (c Config) Warnings() (list []Warning) {
	warn := func(setting, message, wayOut string) { list = append(list, Warning{setting, message, wayOut}) }
	if n := len(c.hidden); n > 0 {
		warn(fileVariable, fmt.Sprintf("%s %s no effect: environment variables with the same names take precedence", strings.Join(c.hidden, ", "), words.Form(n, "has", "have")),
			"remove these variables from the environment: in the file, a setting above \"topics\" applies to all other topics")
	}
	if n := len(c.unread); n > 0 {
		warn(fileVariable, fmt.Sprintf("the settings of %s have no effect: KAFKA_TOPICS does not read %s", strings.Join(c.unread, ", "), words.Form(n, "this topic", "these topics")),
			"correct the names, or add the topics to KAFKA_TOPICS")
	}
	for _, f := range fields(&c) {
		if text := f.value.String(); f.value.Kind() == reflect.String && !f.secret() && strings.Trim(text, " \t") != text {
			warn(f.name(), "the value begins or ends with a space, which is a part of the value", "remove the space if it is not intended")
		}
	}
	if c.Security.Protocol == "sasl_plaintext" {
		warn("KAFKA_SECURITY=sasl_plaintext", "logins and records cross the network unencrypted"+c.Security.plainPassword(), "use sasl_tls")
	}
	if c.Security.TLSInsecure {
		warn("KAFKA_TLS_INSECURE=true", "any certificate is accepted: an attacker in the network between this consumer and the brokers can read and change all data"+
			c.Security.plainPassword(), "set KAFKA_TLS_CA_FILE to the certificate authority of the brokers")
	}
	if r := c.Registry; r.Username != "" || r.Token != "" {
		plain := slices.ContainsFunc(r.URLs, func(u string) bool { return strings.HasPrefix(u, "http://") })
		switch {
		case plain:
			warn("SCHEMA_REGISTRY_URL", "the login of the registry crosses the network unencrypted", "use an https:// address")
		case r.TLSInsecure:
			warn("SCHEMA_REGISTRY_TLS_INSECURE=true", "any certificate is accepted: an attacker in the network between this consumer and the registry can read the login and change schemas",
				"set SCHEMA_REGISTRY_TLS_CA_FILE to the certificate authority of the registry")
		}
	}
	return list
}

// plainPassword is the addition to a warning for the mechanism PLAIN.
func (s Security) plainPassword() string {
	if s.SASLMechanism == "PLAIN" {
		return ", and PLAIN sends the password without hashing it"
	}
	return ""
}

// prefixes begin the names of settings. An unknown variable with one of them may be a mistake.
var prefixes = []string{
	"KAFKA_", "MONGODB_", "EVENT_", "BUCKET_", "FLUSH_", "COMMIT_", "DLQ_", "HTTP_", "PPROF_", "LOG_", "SERIES_", "MEMORY_",
	"SHUTDOWN_", "START_", "META_", "SEGMENT", "COMPACT_", "SERVE_", "CONFIG_", "ROLLUP_", "SCHEMA_",
}

// serviceLink matches the variables that Kubernetes and Docker add for a service that happens to be called "kafka" or "mongodb".
var serviceLink = regexp.MustCompile(`_SERVICE_HOST$|_SERVICE_PORT(_[A-Z0-9_]+)?$|_PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?$`)

// foreignNames are variables of other programs that are used from the same shells. They are the proxy that many programs read,
// what systemd sets for its services, and settings of Kafka's own tools.
var foreignNames = []string{
	"HTTP_PROXY", "MEMORY_PRESSURE_WATCH", "MEMORY_PRESSURE_WRITE",
	"KAFKA_OPTS", "KAFKA_HEAP_OPTS", "KAFKA_HOME", "KAFKA_LOG4J_OPTS", "KAFKA_JMX_OPTS", "KAFKA_JVM_PERFORMANCE_OPTS", "LOG_DIR",
}

// foreign reports whether a variable with one of our prefixes belongs to another program.
func foreign(name, value string) bool {
	return slices.Contains(foreignNames, name) || serviceLink.MatchString(name) ||
		strings.HasSuffix(name, "_PORT") && strings.Contains(value, "://")
}

// otherNames map the names that other clients of Kafka and MongoDB use to our settings. Such a variable is set on purpose. In
// particular, it must not go unnoticed that a connection is unprotected although a variable asks for protection.
var otherNames = map[string]string{
	"KAFKA_BOOTSTRAP_SERVERS": "KAFKA_BROKERS", "KAFKA_BOOTSTRAP_SERVER": "KAFKA_BROKERS", "KAFKA_BROKER_LIST": "KAFKA_BROKERS",
	"KAFKA_CONSUMER_GROUP": "KAFKA_GROUP_ID", "KAFKA_CONSUMER_GROUP_ID": "KAFKA_GROUP_ID", "KAFKA_GROUP_INSTANCE_ID": "KAFKA_INSTANCE_ID",
	"KAFKA_AUTO_OFFSET_RESET": "KAFKA_START", "KAFKA_ISOLATION_LEVEL": "KAFKA_ISOLATION", "KAFKA_SESSION_TIMEOUT_MS": "KAFKA_SESSION_TIMEOUT",
	"KAFKA_SECURITY_PROTOCOL": "KAFKA_SECURITY", "KAFKA_TLS_ENABLED": "KAFKA_SECURITY", "KAFKA_SSL_ENABLED": "KAFKA_SECURITY", "KAFKA_SASL_ENABLED": "KAFKA_SECURITY",
	"KAFKA_SASL_USER": "KAFKA_SASL_USERNAME", "KAFKA_USERNAME": "KAFKA_SASL_USERNAME", "KAFKA_USER": "KAFKA_SASL_USERNAME",
	"KAFKA_PASSWORD": "KAFKA_SASL_PASSWORD", "KAFKA_SASL_JAAS_CONFIG": "KAFKA_SASL_USERNAME and KAFKA_SASL_PASSWORD",
	"KAFKA_SSL_CA_LOCATION": "KAFKA_TLS_CA_FILE", "KAFKA_SSL_CAFILE": "KAFKA_TLS_CA_FILE", "KAFKA_SSL_TRUSTSTORE_LOCATION": "KAFKA_TLS_CA_FILE",
	"KAFKA_SSL_CERTIFICATE_LOCATION": "KAFKA_TLS_CERT_FILE", "KAFKA_SSL_KEYSTORE_LOCATION": "KAFKA_TLS_CERT_FILE", "KAFKA_SSL_KEY_LOCATION": "KAFKA_TLS_KEY_FILE",
	"MONGODB_CONNECTION_STRING": "MONGODB_URI", "MONGODB_DB": "MONGODB_DATABASE", "MONGODB_DB_NAME": "MONGODB_DATABASE",
}

// unknown finds variables with our prefixes that are no settings. Misspelt names, and names of other clients whose setting is not
// set, are problems. All others may belong to another program in the same environment, as COMMIT_SHA and LOG_FILE do.
func unknown(environ []string, known []field) (misspelt []Problem, strange []string) {
	var names []string
	for i := range known {
		names = append(names, known[i].name())
	}
	set := map[string]bool{}
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		set[strings.TrimSuffix(name, fileSuffix)] = value != ""
	}
	for _, entry := range slices.Sorted(slices.Values(environ)) {
		name, value, _ := strings.Cut(entry, "=")
		setting, _ := strings.CutSuffix(name, fileSuffix)
		if !isOurs(name) || foreign(name, value) || slices.Contains(names, name) || slices.Contains(names, setting) {
			continue
		}
		ours, isOther := otherNames[setting]
		first, _, _ := strings.Cut(ours, " ")
		near := nearest(name, names)
		if near == "" && isOurs(setting) {
			near = nearest(setting, names)
		}
		switch {
		case isOther && !set[first] && value != "":
			misspelt = append(misspelt, Problem{Variable: name, Message: "no such setting: did you mean " + ours +
				"? If another program uses this variable, set " + first + " as well"})
		case isOther || near == "":
			strange = append(strange, name)
		default:
			misspelt = append(misspelt, Problem{Variable: name, Message: "no such setting: did you mean " + near + "?"})
		}
	}
	return misspelt, strange
}

func isOurs(name string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(name, p) })
}

// Strange lists the variables that begin like settings but are neither settings nor misspelt ones.
func Strange(environ []string) []string {
	_, strange := unknown(environ, fields(&Config{}))
	return strange
}

// nearest returns the setting that a name was probably meant to be. That is one that begins with the name, or that differs in
// underscores or in a letter or two. Empty means that there is none.
func nearest(name string, known []string) string {
	letters := func(s string) string { return strings.ReplaceAll(s, "_", "") }
	best, least := "", 2+len(name[strings.IndexByte(name, '_')+1:])/6
	for _, k := range known {
		if strings.HasPrefix(k, name+"_") || letters(k) == letters(name) {
			return k
		}
		if d := words.Distance(name, k); d < least {
			best, least = k, d
		}
	}
	return best
}
