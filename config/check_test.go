package config

import (
	"strings"
	"testing"
)

func TestRefusals(t *testing.T) {
	cases := []struct {
		name string
		env  []string
		want string // a part of the only problem
	}{
		{"broker without port", []string{"KAFKA_BROKERS", "a:1,kafka"}, "KAFKA_BROKERS=kafka: not an address"},
		{"broker port", []string{"KAFKA_BROKERS", "kafka:99999"}, "KAFKA_BROKERS=kafka:99999: not an address"},
		{"empty broker", []string{"KAFKA_BROKERS", "a:1,"}, "has an empty element"},
		{"broker with another scheme", []string{"KAFKA_BROKERS", "kafka://a:9092"}, "address 1 has a scheme: write only host:port here"},
		{"broker with scheme", []string{"KAFKA_BROKERS", "PLAINTEXT://a:9092"}, "KAFKA_BROKERS: address 1 has a scheme: write only host:port here, and set encryption and login with KAFKA_SECURITY"},
		{"brokers with semicolon", []string{"KAFKA_BROKERS", "a:9092; b:9092"}, "KAFKA_BROKERS: address 1 contains a semicolon or a space: write commas"},
		{"brokers in quotes", []string{"KAFKA_BROKERS", `"a:9092"`}, "begins and ends with a quote: remove the quotes"},
		{"uri in quotes", []string{"MONGODB_URI", `"mongodb://u:geheim@h/db"`}, `MONGODB_URI=***: begins and ends with a quote`},
		{"space after the uri", []string{"MONGODB_URI", "mongodb://u:geheim@h/db "}, "MONGODB_URI: begins or ends with a space or a line end: remove it"},
		{"password with @", []string{"MONGODB_URI", "mongodb://u:ge@heim@h/db"}, "In user and password write %40 for @"},
		{"password with #", []string{"MONGODB_URI", "mongodb://u:ge#heim@h/db"}, "%23 for #"},
		{"password with /", []string{"MONGODB_URI", "mongodb://u:ge/heim@h:27017/db"}, "%2F for /"},
		{"password with %", []string{"MONGODB_URI", "mongodb://u:ge%sheim@h/db"}, "%25 for %"},
		{"number without unit", []string{"FLUSH_INTERVAL", "5"}, "FLUSH_INTERVAL=5: not a duration: write a number with its unit"},
		{"time format of Java", []string{"EVENT_TIME_FORMAT", "yyyy-MM-dd HH:mm:ss"}, "a strftime pattern, such as %Y-%m-%d %H:%M:%S"},
		{"path in quotes", []string{"EVENT_TIME_FIELD", `'ts'`}, "begins and ends with a quote"},
		{"avro without a schema", []string{"EVENT_FORMAT", "avro"}, "set EVENT_SCHEMA_FILE to the path of its file"},
		{"avro of a registry without a frame", []string{"EVENT_FORMAT", "avro", "SCHEMA_REGISTRY_URL", "http://r:8081", "EVENT_FRAMING", "none"}, "EVENT_FRAMING=none: does not fit EVENT_FORMAT=avro"},
		{"registry without a scheme", []string{"SCHEMA_REGISTRY_URL", "r:8081"}, "write http://host:8081 or https://host"},
		{"registry with a user", []string{"SCHEMA_REGISTRY_URL", "http://u:geheim@r:8081"}, "SCHEMA_REGISTRY_URL: an address contains a user name"},
		{"two logins", []string{"SCHEMA_REGISTRY_URL", "https://r", "SCHEMA_REGISTRY_USERNAME", "u", "SCHEMA_REGISTRY_TOKEN", "geheim"}, "SCHEMA_REGISTRY_TOKEN=***: cannot be combined with SCHEMA_REGISTRY_USERNAME"},
		{"certificate without a key", []string{"SCHEMA_REGISTRY_TLS_CERT_FILE", "/c.pem"}, "must be set together"},
		{"no schema", []string{"EVENT_FORMAT", "avro", "EVENT_SCHEMA", "{}"}, "EVENT_SCHEMA: not an Avro schema"},
		{"schema of no record", []string{"EVENT_FORMAT", "avro", "EVENT_SCHEMA", `{"type":"long"}`}, "the schema is not a record"},
		{"exact time of avro", []string{"EVENT_FORMAT", "avro", "EVENT_SCHEMA", `{"type":"map","values":"long"}`, "EVENT_TIME_EXACT", "ns"}, "its times become dates with milliseconds"},
		{"lists of avro", []string{"EVENT_FORMAT", "avro", "EVENT_SCHEMA", `{"type":"map","values":"long"}`, "EVENT_LIST", "x"}, "EVENT_LIST=x: cannot be combined with EVENT_FORMAT=avro"},
		{"protobuf without descriptors", []string{"EVENT_FORMAT", "protobuf"}, "set SCHEMA_REGISTRY_URL to the address of their registry, or EVENT_PROTOBUF_FILE to the path of a descriptor file. protoc"},
		{"protobuf of a registry without a frame", []string{"EVENT_FORMAT", "protobuf", "SCHEMA_REGISTRY_URL", "http://r:8081", "EVENT_FRAMING", "none"}, "EVENT_FRAMING=none: does not fit EVENT_FORMAT=protobuf"},
		{"protobuf of a file behind a frame", []string{"EVENT_FORMAT", "protobuf", "SCHEMA_REGISTRY_URL", "http://r:8081", "EVENT_FRAMING", "confluent", "EVENT_PROTOBUF_FILE", "check.go", "EVENT_PROTOBUF_MESSAGE", "a.B"}, "must not be confluent if EVENT_PROTOBUF_FILE is set"},
		{"protobuf of a registry with an exact time", []string{"EVENT_FORMAT", "protobuf", "SCHEMA_REGISTRY_URL", "http://r:8081", "EVENT_TIME_EXACT", "ns"}, "its times become dates with milliseconds"},
		{"no file of descriptors", []string{"EVENT_FORMAT", "protobuf", "EVENT_PROTOBUF_FILE", "/nowhere/a.binpb"}, "EVENT_PROTOBUF_FILE=/nowhere/a.binpb: cannot be read: no such file"},
		{"empty descriptors", []string{"EVENT_FORMAT", "protobuf", "EVENT_PROTOBUF_FILE", "/dev/null"}, "EVENT_PROTOBUF_FILE=/dev/null: is an empty file"},
		{"no message", []string{"EVENT_FORMAT", "protobuf", "EVENT_PROTOBUF_FILE", "check.go"}, "EVENT_PROTOBUF_MESSAGE: is not set"},
		{"no descriptors", []string{"EVENT_FORMAT", "protobuf", "EVENT_PROTOBUF_FILE", "check.go", "EVENT_PROTOBUF_MESSAGE", "a.B"}, "EVENT_PROTOBUF_MESSAGE=a.B: cannot be read from EVENT_PROTOBUF_FILE=check.go: not a descriptor set"},
		{"exact time of protobuf", []string{"EVENT_FORMAT", "protobuf", "EVENT_PROTOBUF_FILE", "check.go", "EVENT_PROTOBUF_MESSAGE", "a.B", "EVENT_TIME_EXACT", "ns"}, "its times become dates with milliseconds"},
		{"word near another", []string{"EVENT_FORMAT", "jsn"}, "must be one of json, extjson, bson, influx, otlp, otlp_json, avro, protobuf: did you mean json?"},
		{"mechanism", []string{"KAFKA_SECURITY", "sasl_tls", "KAFKA_SASL_USERNAME", "u", "KAFKA_SASL_PASSWORD", "p", "KAFKA_SASL_MECHANISM", "AWS_MSK_IAM"}, "must be one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER. AWS_MSK_IAM and GSSAPI are not supported: at Amazon MSK use SCRAM-SHA-512, or OAUTHBEARER with KAFKA_OAUTH_TOKEN_FILE (docs/deploy.md)"},
		{"start misspelt", []string{"KAFKA_START", "earlyest"}, "did you mean earliest?"},
		{"root in array", []string{"EVENT_ROOT", "values[]"}, "EVENT_ROOT=values[]: leads into an array, but paths lead through objects only"},
		{"root of any name", []string{"EVENT_ROOT", "data.*"}, "EVENT_ROOT=data.*: not a dotted path: the wildcard * is not supported. Write the name of the field"},
		{"two times", []string{"EVENT_TIME_FIELD", "ts,timestamp"}, "EVENT_TIME_FIELD=ts,timestamp: must name one field, but has a comma"},
		{"two metas", []string{"EVENT_META_FIELD", "a,b"}, "for a meta of several fields set EVENT_META_FIELDS instead"},
		{"two metas beside the key", []string{"EVENT_META_FIELD", "a,b", "EVENT_META_FROM", "key"}, "EVENT_META_FIELD=a,b: must name one field, but has a comma"},
		{"hours up to 12", []string{"EVENT_TIME_FORMAT", "%Y-%m-%d %I:%M"}, "hours up to 12 and neither AM nor PM"},
		{"name of a zone", []string{"EVENT_TIME_FORMAT", "%Y-%m-%d %Z"}, "an abbreviated time zone"},
		{"topic", []string{"KAFKA_TOPICS", ".."}, "KAFKA_TOPICS=..: not a valid topic name"},
		{"lease", []string{"KAFKA_LEASE", "10s", "COMMIT_INTERVAL", "4s"}, "KAFKA_LEASE=10s: must be at least 3 × COMMIT_INTERVAL = 12s"},
		{"rebalance timeout", []string{"KAFKA_REBALANCE_TIMEOUT", "10s"}, "must be more than 2 × MONGODB_WRITE_TIMEOUT = 10s"},
		{"shutdown", []string{"SHUTDOWN_TIMEOUT", "5s"}, "SHUTDOWN_TIMEOUT=5s: must be more than MONGODB_WRITE_TIMEOUT = 5s"},
		{"heartbeat", []string{"KAFKA_HEARTBEAT_INTERVAL", "11s"}, "at most a third of KAFKA_SESSION_TIMEOUT = 10s"},
		{"start", []string{"KAFKA_START", "yesterday"}, "KAFKA_START=yesterday: must be earliest, latest, an RFC 3339 time"},
		{"time bound", []string{"EVENT_TIME_MIN", "24h"}, "neither an RFC 3339 time such as"},
		{"window", []string{"EVENT_TIME_MIN", "+25h"}, "EVENT_TIME_MAX=+24h: must be after EVENT_TIME_MIN = +25h"},
		{"layout", []string{"EVENT_TIME_FORMAT", "15:04:05"}, "nor a Go layout with year, month and day"},
		{"no layout", []string{"EVENT_TIME_FORMAT", "iso8601"}, "nor a Go layout"},
		{"path", []string{"EVENT_META_FIELD", "a..b"}, "EVENT_META_FIELD=a..b: not a dotted path"},
		{"meta nowhere", []string{"EVENT_META_FIELD", ""}, "set EVENT_META_FROM to key or none"},
		{"time is meta", []string{"EVENT_META_FIELD", "time"}, "is the same field as EVENT_TIME_FIELD"},
		{"meta inside time", []string{"EVENT_TIME_FIELD", "a", "EVENT_META_FIELD", "a.b"}, "EVENT_META_FIELD=a.b: lies inside EVENT_TIME_FIELD=a"},
		{"meta twice", []string{"EVENT_META_FIELD", "meta", "EVENT_META_FIELDS", "a,b"}, "EVENT_META_FIELDS=a,b: cannot be combined with EVENT_META_FIELD=meta"},
		{"meta from elsewhere", []string{"EVENT_META_FROM", "key", "EVENT_META_FIELDS", "a"}, "EVENT_META_FIELDS=a: cannot be combined with EVENT_META_FROM=key"},
		{"parts of one name", []string{"EVENT_META_FIELDS", "a.id,b.id"}, "EVENT_META_FIELDS=b.id: has the same name (id) in meta as a.id"},
		{"empty part", []string{"EVENT_META_FIELDS", "a,,b"}, "EVENT_META_FIELDS=a,,b: has an empty element"},
		{"root", []string{"EVENT_ROOT", "a..b"}, "EVENT_ROOT=a..b: not a dotted path"},
		{"fields in time", []string{"EVENT_FIELDS", "time"}, "EVENT_TIME_FIELD=time: contains EVENT_FIELDS=time"},
		{"time dropped", []string{"EVENT_DROP", "x,time"}, "EVENT_DROP=time: is the same field as EVENT_TIME_FIELD"},
		{"framing", []string{"EVENT_FRAMING", "avro"}, "EVENT_FRAMING=avro: must be one of none, confluent"},
		{"list in array", []string{"EVENT_LIST", "values[]"}, "EVENT_LIST=values[]: leads into an array"},
		{"lists in lists", []string{"EVENT_LIST", "a,a.b"}, "EVENT_LIST=a.b: this list and the list a are nested, but a list inside a list cannot be split"},
		{"list around root", []string{"EVENT_LIST", "/a", "EVENT_ROOT", "a.b"}, "EVENT_LIST=/a: contains EVENT_ROOT=a.b"},
		{"parse", []string{"EVENT_PARSE", "$.a"}, "EVENT_PARSE=$.a: not a dotted path"},
		{"skip", []string{"EVENT_SKIP", "=x"}, "EVENT_SKIP==x: is not a condition: write path, !path, path=value or path!=value"},
		{"name alone", []string{"EVENT_FIELD_NAME", "n"}, "EVENT_FIELD_NAME=n: leads to the name of a value, but EVENT_FIELD_VALUE is not set"},
		{"value alone", []string{"EVENT_FIELD_VALUE", "v"}, "EVENT_FIELD_VALUE=v: leads to a value, but EVENT_FIELD_NAME is not set"},
		{"rename", []string{"EVENT_RENAME", "a=b.c"}, "EVENT_RENAME=a=b.c: gives a name that"},
		{"several times", []string{"EVENT_TIME_FIELD", "ts,time"}, "has a comma: if the time is at different paths in different events, write | between the paths"},
		{"time of the key", []string{"EVENT_TIME_FIELD", "key:ts"}, "EVENT_TIME_FIELD=key:ts: takes the time from the record's key"},
		{"no header", []string{"EVENT_META_FIELDS", "a,header:"}, "EVENT_META_FIELDS=header:: names no header"},
		{"zone", []string{"EVENT_TIME_ZONE", "Berlin"}, "EVENT_TIME_ZONE=Berlin: is not a time zone"},
		{"zone of numbers", []string{"EVENT_TIME_ZONE", "UTC", "EVENT_TIME_FORMAT", "unix"}, "EVENT_TIME_ZONE=UTC: has no effect"},
		{"exact time", []string{"EVENT_TIME_EXACT", "time"}, "EVENT_TIME_EXACT=time: is already the name of the time or the meta"},
		{"name of exact time", []string{"EVENT_TIME_EXACT", "a.b"}, "EVENT_TIME_EXACT=a.b: is not a valid field name"},
		{"numbers", []string{"EVENT_NUMBERS", "comma"}, "EVENT_NUMBERS=comma: must be one of json, text"},
		{"framed lines", []string{"EVENT_FRAMING", "auto", "EVENT_FORMAT", "influx"}, "EVENT_FRAMING=auto: cannot be combined with EVENT_FORMAT=influx"},
		{"lists of lines", []string{"EVENT_LIST", "a,b", "EVENT_FORMAT", "influx"}, "EVENT_LIST=a,b: cannot be combined with EVENT_FORMAT=influx: events in this format have no lists"},
		{"framed bson", []string{"EVENT_FRAMING", "confluent", "EVENT_FORMAT", "bson"}, "EVENT_FRAMING=confluent: cannot be combined with EVENT_FORMAT=bson"},
		{"sasl without mechanism", []string{"KAFKA_SECURITY", "SASL_SSL", "KAFKA_SASL_USERNAME", "u", "KAFKA_SASL_PASSWORD", "p"}, "KAFKA_SASL_MECHANISM: is required with KAFKA_SECURITY=sasl_tls"},
		{"sasl of nobody", []string{"KAFKA_SECURITY", "sasl_tls", "KAFKA_SASL_MECHANISM", "plain", "KAFKA_SASL_USERNAME", "", "KAFKA_SASL_PASSWORD", "p"}, "KAFKA_SASL_USERNAME: is required with KAFKA_SECURITY=sasl_tls"},
		{"sasl incomplete", []string{"KAFKA_SECURITY", "sasl_tls", "KAFKA_SASL_MECHANISM", "PLAIN", "KAFKA_SASL_USERNAME", "u"}, "KAFKA_SASL_PASSWORD: is required"},
		{"oauth incomplete", oauth(), "KAFKA_OAUTH_TOKEN_URL: is required with KAFKA_SASL_MECHANISM=OAUTHBEARER, unless KAFKA_OAUTH_TOKEN_FILE has a token"},
		{"oauth without secret", oauth("KAFKA_OAUTH_TOKEN_URL", "https://id.example/token", "KAFKA_OAUTH_CLIENT_ID", "c"), "KAFKA_OAUTH_CLIENT_SECRET: is required"},
		{"oauth by http", oauth("KAFKA_OAUTH_TOKEN_URL", "http://id.example/token", "KAFKA_OAUTH_CLIENT_ID", "c", "KAFKA_OAUTH_CLIENT_SECRET", "s"), "would send the client's secret unencrypted"},
		{"oauth no url", oauth("KAFKA_OAUTH_TOKEN_URL", "id.example/token", "KAFKA_OAUTH_CLIENT_ID", "c", "KAFKA_OAUTH_CLIENT_SECRET", "s"), "must be a URL"},
		{"oauth and password", oauth("KAFKA_SASL_USERNAME", "u", "KAFKA_OAUTH_TOKEN_FILE", "/t"), "KAFKA_SASL_MECHANISM=OAUTHBEARER: does not use a user name and a password"},
		{"oauth twice", oauth("KAFKA_OAUTH_TOKEN_FILE", "/t", "KAFKA_OAUTH_TOKEN_URL", "https://id.example/token"), "cannot be combined with KAFKA_OAUTH_TOKEN_URL"},
		{"oauth extension", oauth("KAFKA_OAUTH_EXTENSIONS", "logicalCluster", "KAFKA_OAUTH_TOKEN_FILE", "/t"), "must be name=value"},
		{"oauth without mechanism", []string{"KAFKA_SECURITY", "sasl_tls", "KAFKA_SASL_MECHANISM", "PLAIN", "KAFKA_SASL_USERNAME", "u", "KAFKA_SASL_PASSWORD", "p", "KAFKA_OAUTH_SCOPE", "kafka"}, "KAFKA_SASL_MECHANISM=PLAIN: does not use a token"},
		{"oauth without sasl", []string{"KAFKA_OAUTH_TOKEN_FILE", "/t"}, "KAFKA_SECURITY=plaintext: does not authenticate"},
		{"tls off", []string{"KAFKA_TLS_CA_FILE", "/ca.pem"}, "KAFKA_SECURITY=plaintext: does not encrypt"},
		{"key alone", []string{"KAFKA_SECURITY", "tls", "KAFKA_TLS_KEY_FILE", "/k.pem"}, "must be set together"},
		{"uri scheme", []string{"MONGODB_URI", "http://mongo"}, "not a connection string"},
		{"uri option", []string{"MONGODB_URI", "mongodb://mongo/?tls=true&w=-3"}, "MONGODB_URI: has a value that MongoDB's driver does not accept, in the option w"},
		{"uri option of a name in DNS", []string{"MONGODB_URI", "mongodb+srv://mongo.example/?srvMaxHosts=1&tls=maybe"}, "MONGODB_URI: has a value that MongoDB's driver does not accept, in the option tls"},
		{"uri port", []string{"MONGODB_URI", "mongodb://a:1,b:99999/"}, "MONGODB_URI: has a port outside of 1 to 65535, in address 2"},
		{"uri options", []string{"MONGODB_URI", "mongodb://a,b/?directConnection=true"}, "a direct connection cannot be made if multiple hosts are specified"},
		{"database", []string{"MONGODB_DATABASE", "a b"}, `the database name "a b" contains " "`},
		{"database on Windows", []string{"MONGODB_DATABASE", "a:b"}, `the database name "a:b" contains ":"`},
		{"database of the uri", []string{"MONGODB_URI", "mongodb://mongo/a%20b"}, `MONGODB_URI: the name of its database contains " "`},
		{"long database", []string{"MONGODB_DATABASE", strings.Repeat("d", 64)}, "has 64 bytes: MongoDB allows at most 63"},
		{"admin", []string{"MONGODB_DATABASE", "admin"}, "is reserved by MongoDB"},
		{"collection", []string{"MONGODB_COLLECTION", "a$b"}, "contains a $ or a NUL"},
		{"system collection", []string{"KAFKA_TOPICS", "system.events"}, `begins with "system."`},
		{"dot topic", []string{"KAFKA_TOPICS", ".events"}, `the time series of topic .events would be ".events", which begins or ends with a dot`},
		{"long topic", []string{"KAFKA_TOPICS", strings.Repeat("t", 240)}, "the name has 259 bytes, but MongoDB allows at most 255"},
		{"collision", []string{"KAFKA_TOPICS", "a,a.buckets"}, `"a" and "a.buckets" would both use the collection "a.buckets"`},
		{"fields", []string{"MONGODB_META_FIELD", "time"}, "must differ from MONGODB_TIME_FIELD"},
		{"dotted field", []string{"MONGODB_TIME_FIELD", "a.b"}, "must be the name of a top-level field"},
		{"_id", []string{"MONGODB_META_FIELD", "_id"}, "not _id"},
		{"span alone", []string{"MONGODB_BUCKET_MAX_SPAN", "1h"}, "MONGODB_BUCKET_ROUNDING=not set: must equal MONGODB_BUCKET_MAX_SPAN (1h)"},
		{"span and granularity", []string{"MONGODB_BUCKET_MAX_SPAN", "1h", "MONGODB_BUCKET_ROUNDING", "1h", "MONGODB_GRANULARITY", "hours"}, "set the granularity, or these two"},
		{"span of no seconds", []string{"MONGODB_BUCKET_MAX_SPAN", "366h", "MONGODB_BUCKET_ROUNDING", "366h1ms"}, "must be whole seconds"},
		{"counts", []string{"BUCKET_MIN_COUNT", "30", "BUCKET_MAX_COUNT", "20"}, "must be at most BUCKET_MAX_COUNT = 20 measurements"},
		{"dlq loop", []string{"KAFKA_TOPICS", "a,a.dlq"}, "its dead letters would be read as events"},
		{"dlq name", []string{"DLQ_TOPIC", "dead letters"}, `would be "dead letters": not a valid topic name`},
		{"same address", []string{"PPROF_ADDR", "127.0.0.1:9464"}, "is the same address as HTTP_ADDR"},
		{"address", []string{"HTTP_ADDR", "9464"}, "HTTP_ADDR=9464: not an address to listen at"},
		{"memory", []string{"MEMORY_LIMIT", "1MiB"}, "MEMORY_LIMIT=1MiB: must be at least 32MiB"},
		{"log level", []string{"LOG_LEVEL", "trace"}, "LOG_LEVEL=trace: must be one of debug, info, warn, error"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got := problems(t, with(c.env...))
			if len(got) == 0 || !strings.Contains(strings.Join(got, "\n"), c.want) {
				t.Errorf("problems %q, want %q", got, c.want)
			}
			if len(got) > 1 && c.name != "span of no seconds" {
				t.Errorf("%d problems for one mistake: %q", len(got), got)
			}
		})
	}
}

func TestSettingsThatAreFine(t *testing.T) {
	for name, env := range map[string][]string{
		"custom bucketing":     {"MONGODB_BUCKET_MAX_SPAN", "2h", "MONGODB_BUCKET_ROUNDING", "2h"},
		"one collection":       {"KAFKA_TOPICS", "a, b", "MONGODB_COLLECTION", "all"},
		"brokers with spaces":  {"KAFKA_BROKERS", " a:9092 , b:9092 "},
		"topics by pattern":    {"KAFKA_TOPICS", `^plant\..*`},
		"day":                  {"EVENT_TIME_FORMAT", "%Y-%m-%d"},
		"one dead-letter":      {"KAFKA_TOPICS", "a,b", "DLQ_TOPIC", "dead"},
		"no series":            {"EVENT_META_FIELD", "", "EVENT_META_FROM", "none"},
		"parts of meta":        {"EVENT_META_FIELDS", "sensor, site=location.site"},
		"no field, but parts":  {"EVENT_META_FIELD", "", "EVENT_META_FIELDS", "a"},
		"no field, but key":    {"EVENT_META_FIELD", "", "EVENT_META_FROM", "key"},
		"envelope":             {"EVENT_ROOT", "payload.after", "EVENT_TIME_FIELD", "/payload.ts_ms", "EVENT_DROP", "a,b.c"},
		"shapes":               {"EVENT_PARSE", "body", "EVENT_LIST", "body.readings,/more", "EVENT_SKIP", "!type,type=join,n!=3", "EVENT_RENAME", "a.b=c", "EVENT_FIELD_NAME", "n", "EVENT_FIELD_VALUE", "v|w"},
		"record's own":         {"EVENT_META_FIELDS", "key:,site=key:a.site,header:topic,channel", "EVENT_TIME_FIELD", "ts|header:ce_time"},
		"local times":          {"EVENT_TIME_ZONE", "Europe/Berlin", "EVENT_TIME_FORMAT", "02.01.2006 15:04", "EVENT_TIME_EXACT", "ns", "EVENT_NUMBERS", "text"},
		"dollar dropped":       {"EVENT_DROP", "$schema,x.$$type"},
		"layout":               {"EVENT_TIME_FORMAT", "02.01.2006 15:04:05"},
		"relative window":      {"EVENT_TIME_MIN", "-72h"},
		"srv":                  {"MONGODB_URI", "mongodb+srv://u:p@cluster.example.net/?appName=x"},
		"several hosts":        {"MONGODB_URI", "mongodb://a:1,b:2/db?replicaSet=rs"},
		"oauth":                oauth("KAFKA_OAUTH_TOKEN_URL", "http://127.0.0.1:8080/token", "KAFKA_OAUTH_CLIENT_ID", "c", "KAFKA_OAUTH_CLIENT_SECRET", "s", "KAFKA_OAUTH_SCOPE", "a,b"),
		"oauth by file":        oauth("KAFKA_OAUTH_TOKEN_FILE", "/t", "KAFKA_OAUTH_EXTENSIONS", "logicalCluster=lkc-1,identityPoolId=pool-1"),
		"sasl":                 {"KAFKA_SECURITY", "sasl_plaintext", "KAFKA_SASL_MECHANISM", "SCRAM-SHA-512", "KAFKA_SASL_USERNAME", "u", "KAFKA_SASL_PASSWORD", "p"},
		"start at a time":      {"KAFKA_START", "2026-01-31T00:00:00+01:00"},
		"fast tests":           {"KAFKA_SESSION_TIMEOUT", "1s", "KAFKA_HEARTBEAT_INTERVAL", "100ms", "KAFKA_REBALANCE_TIMEOUT", "3s", "KAFKA_LEASE", "600ms", "COMMIT_INTERVAL", "200ms", "MONGODB_WRITE_TIMEOUT", "1s"},
		"listening at no port": {"HTTP_ADDR", "127.0.0.1:0"},
	} {
		if got := problems(t, with(env...)); got != nil {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// oauth returns the settings of a login with a token.
func oauth(more ...string) []string {
	return append([]string{"KAFKA_SECURITY", "sasl_tls", "KAFKA_SASL_MECHANISM", "OAUTHBEARER"}, more...)
}

// TestPortOfThePage checks that a page that only its own machine can reach is not announced to the group.
func TestPortOfThePage(t *testing.T) {
	for address, want := range map[string]uint16{
		"": 0, "127.0.0.1:9464": 0, "localhost:9464": 0, "[::1]:9464": 0, ":0": 0, ":9464": 9464, "0.0.0.0:80": 80, "[::]:9464": 9464, "10.0.0.5:65535": 65535,
	} {
		if got := (Service{HTTPAddr: address}).PagePort(); got != want {
			t.Errorf("HTTP_ADDR=%s: port %d, want %d", address, got, want)
		}
	}
}
