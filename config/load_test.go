package config

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"waterwheel/internal/measurement"
)

// minimal returns the minimum settings that can be loaded.
func minimal() map[string]string {
	return map[string]string{
		"KAFKA_BROKERS": "kafka:9092", "KAFKA_TOPICS": "events", "MONGODB_URI": "mongodb://user:pa55@mongo:27017/metrics",
		"MEMORY_LIMIT": "1GiB",
	}
}

func load(env map[string]string) (Config, error) {
	var environ []string
	for name, value := range env {
		environ = append(environ, name+"="+value)
	}
	return Load(func(name string) (string, bool) { value, ok := env[name]; return value, ok }, environ)
}

// with returns the minimal environment with these pairs of names and values.
func with(pairs ...string) map[string]string {
	env := minimal()
	for i := 0; i < len(pairs); i += 2 {
		env[pairs[i]] = pairs[i+1]
	}
	return env
}

// problems returns the problems as lines.
func problems(t *testing.T, env map[string]string) []string {
	t.Helper()
	_, err := load(env)
	if err == nil {
		return nil
	}
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("error %T %v, want *Error", err, err)
	}
	var lines []string
	for _, p := range e.Problems {
		lines = append(lines, p.String())
	}
	return lines
}

// TestEventsAreLoadedWithoutServers checks that only the settings for decoding events are checked.
func TestEventsAreLoadedWithoutServers(t *testing.T) {
	read := func(env map[string]string) (Config, error) {
		var environ []string
		for name, value := range env {
			environ = append(environ, name+"="+value)
		}
		return LoadEvents(func(name string) (string, bool) { v, ok := env[name]; return v, ok }, environ)
	}
	c, err := read(map[string]string{"EVENT_META_FIELDS": "a,b", "MONGODB_META_FIELD": "m", "KAFKA_LEASE": "never", "DLQ_TOPC": "x", "MONGODB_URI": "?"})
	if err != nil || len(c.Event.MetaFields) != 2 || c.MongoDB.MetaField != "m" {
		t.Errorf("%+v, %v", c.Event, err)
	}
	if _, err = read(map[string]string{"EVENT_META_FEILD": "a"}); err == nil || !strings.Contains(err.Error(), "did you mean EVENT_META_FIELD") {
		t.Errorf("a misspelt setting of events: %v", err)
	}
}

func TestDefaults(t *testing.T) {
	c, err := load(minimal())
	if err != nil {
		t.Fatal(err)
	}
	want := Config{
		Kafka: Kafka{
			Brokers: []string{"kafka:9092"}, Topics: []string{"events"}, GroupID: "waterwheel", Start: Start{Policy: "earliest"},
			OutOfRange: "stop", Isolation: "read_committed", SessionTimeout: 10 * time.Second, HeartbeatInterval: time.Second,
			RebalanceTimeout: time.Minute, Lease: 4 * time.Second, FetchBytes: 2 << 20, FetchWait: 500 * time.Millisecond,
		},
		Security: Security{Protocol: "plaintext"},
		Event: Event{
			Format: "json", Decimals: "decimal128", Compression: "none", Framing: "none", TimeField: "time", TimeFormat: "auto",
			TimeMin: measurement.At(631152000000), TimeMax: measurement.FromRecord(24 * time.Hour),
			MetaField: "meta", MetaFrom: "value", Numbers: "json", Nulls: "keep", DottedNames: "nest", MaxBytes: 1 << 20,
		},
		Registry: Registry{Timeout: 5 * time.Second, UnknownWait: 30 * time.Second},
		MongoDB: MongoDB{
			URI: "mongodb://user:pa55@mongo:27017/metrics", Database: "metrics", Collection: "{topic}", TimeField: "time", MetaField: "meta",
			Granularity: "seconds", View: "auto", WriteTimeout: 5 * time.Second,
		},
		Bucket: Bucketing{MaxCount: 1000, MaxBytes: 125 << 10, MinCount: 10, Reopen: true, DeltaMax: 16},
		Rollup: Rollup{Interval: time.Hour, Share: 0.1, CountField: "count"},
		Flush: Flushing{
			Interval: 5 * time.Second, Bytes: 64 << 20, Count: 500000, CommitInterval: time.Second, Segments: "auto",
			CompactInterval: 10 * time.Minute, CompactDelay: 4 * time.Minute, SegmentRetention: 10 * time.Minute, SegmentRows: 250, SegmentMeasurements: 500_000,
		},
		Memory:  Memory{Limit: 1 << 30},
		DLQ:     DLQ{Topic: "{topic}.dlq", Create: true, Partitions: 1, Retention: 720 * time.Hour},
		Service: Service{HTTPAddr: "127.0.0.1:9464", LogLevel: "info", LogProgress: time.Minute, ShutdownTimeout: 25 * time.Second},
		Serve:   Serve{Addr: "127.0.0.1:9465", MaxRows: 100_000, MaxTime: 30 * time.Second, MaxQueries: 8},
	}
	if diff := cmp.Diff(want, c, cmp.AllowUnexported(measurement.Bound{}), cmpopts.IgnoreUnexported(Config{})); diff != "" {
		t.Errorf("defaults (-want +got):\n%s", diff)
	}
}

func TestAllProblemsAreReportedAtOnce(t *testing.T) {
	got := problems(t, map[string]string{
		"KAFKA_TOPICS":           "ok, no spaces allowed ,ok",
		"KAFKA_LEASE":            "2s",
		"KAFKA_HEARTBEAT":        "1s",
		"EVENT_MAX_BYTES":        "1.5M",
		"BUCKET_MAX_COUNT":       "many",
		"FLUSH_COUNT":            "0",
		"MONGODB_WRITE_TIMEOUT":  "10",
		"DLQ_CREATE":             "perhaps",
		"KAFKA_ISOLATION":        "serializable",
		"MONGODB_URI":            "mongodb://user:pa55w0rd@",
		"KAFKA_SASL_PASSWORD":    "geheim",
		"MONGODB_EXPIRE_AFTER":   "1500ms",
		"EVENT_TIME_MAX":         "1980-01-01T00:00:00Z",
		"MONGODB_BUCKET_MAXSPAN": "1h",
	})
	want := []string{
		"KAFKA_BROKERS: is required: bootstrap addresses, host:port, comma-separated",
		"KAFKA_ISOLATION=serializable: must be one of read_committed, read_uncommitted",
		"EVENT_MAX_BYTES=1.5M: not a size: write a whole number with KiB, MiB or GiB; K, M and G mean the same, from 1B to 64MiB",
		"MONGODB_WRITE_TIMEOUT=10: not a duration: write a number with its unit, as 500ms, 10s, 2m or 30d, from 100ms to 10m",
		"BUCKET_MAX_COUNT=many: must be a whole number, from 1 to 1000000 measurements",
		"FLUSH_COUNT=0: must be at least 1 measurement",
		"DLQ_CREATE=perhaps: must be true or false",
		"KAFKA_HEARTBEAT: no such setting: did you mean KAFKA_HEARTBEAT_INTERVAL?",
		"MONGODB_BUCKET_MAXSPAN: no such setting: did you mean MONGODB_BUCKET_MAX_SPAN?",
		"KAFKA_TOPICS=no spaces allowed: not a valid topic name: Kafka allows 1 to 249 of the characters a-z A-Z 0-9 . _ -, and not . or ..",
		"KAFKA_TOPICS=ok: is listed twice",
		"KAFKA_SECURITY=plaintext: does not authenticate, but KAFKA_SASL_… or KAFKA_OAUTH_… is set: use sasl_tls (or sasl_plaintext), or unset these",
		"KAFKA_LEASE=2s: must be at least 3 × COMMIT_INTERVAL = 3s",
		"EVENT_TIME_MAX=1980-01-01T00:00:00Z: must be after EVENT_TIME_MIN = 1990-01-01T00:00:00Z: no time would be accepted",
		"MONGODB_URI: " + uriEscapes,
		"MONGODB_EXPIRE_AFTER=1.5s: must be whole seconds",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}

func TestEmptyCountsAsNotSetUnlessItMeansSomething(t *testing.T) {
	c, err := load(with("KAFKA_GROUP_ID", "", "KAFKA_LEASE", "", "LOG_FORMAT", "", "DLQ_TOPIC", "", "HTTP_ADDR", "", "EVENT_TIME_FIELD", ""))
	if err != nil {
		t.Fatal(err)
	}
	if c.Kafka.GroupID != "waterwheel" || c.Kafka.Lease != 4*time.Second {
		t.Errorf("group %q, lease %v, want the defaults", c.Kafka.GroupID, c.Kafka.Lease)
	}
	if c.DLQ.Topic != "" || c.Service.HTTPAddr != "" || c.Event.TimeField != "" {
		t.Errorf("DLQ_TOPIC %q, HTTP_ADDR %q, EVENT_TIME_FIELD %q, want empty", c.DLQ.Topic, c.Service.HTTPAddr, c.Event.TimeField)
	}
	if got := problems(t, with("MONGODB_URI", "")); len(got) != 1 || !strings.HasPrefix(got[0], "MONGODB_URI: is required") {
		t.Errorf("an empty required variable: %v", got)
	}
	if got := problems(t, with("KAFKA_TOPICS", "")); len(got) != 1 || got[0] != "KAFKA_TOPICS: is required: topics to read, comma-separated" {
		t.Errorf("a required variable with much to say: %v", got)
	}
}

func TestValuesFromFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "uri")
	if err := os.WriteFile(path, []byte("mongodb://from-file/db\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	env := with("MONGODB_URI_FILE", path)
	if got := problems(t, env); len(got) != 1 || !strings.Contains(got[0], "cannot be combined with MONGODB_URI_FILE") {
		t.Errorf("set twice: %v", got)
	}
	delete(env, "MONGODB_URI")
	c, err := load(env)
	if err != nil || c.MongoDB.URI.Reveal() != "mongodb://from-file/db" || c.MongoDB.Database != "db" {
		t.Errorf("URI %q, database %q, error %v", c.MongoDB.URI.Reveal(), c.MongoDB.Database, err)
	}
	if err := os.WriteFile(path, []byte("mongodb://from-windows/db\r\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if c, err := load(env); err != nil || c.MongoDB.URI.Reveal() != "mongodb://from-windows/db" {
		t.Errorf("a file with CR LF: URI %q, error %v", c.MongoDB.URI.Reveal(), err)
	}
	env["MONGODB_URI_FILE"] = path + "x"
	if got := problems(t, env); len(got) != 1 || !strings.Contains(got[0], path+"x") {
		t.Errorf("a missing file: %v", got)
	}
	env = with("MONGODB_URI_FILE", "/dev/null")
	delete(env, "MONGODB_URI")
	if got := problems(t, env); len(got) != 1 || !strings.Contains(got[0], "the file that MONGODB_URI_FILE names is empty") {
		t.Errorf("an empty file: %v", got)
	}
}

func TestForeignVariablesAreLeftAlone(t *testing.T) {
	env := with(
		"KAFKA_SERVICE_HOST", "10.0.0.1", "KAFKA_SERVICE_PORT", "9092", "KAFKA_SERVICE_PORT_CLIENT", "9092", "KAFKA_PORT", "tcp://10.0.0.1:9092",
		"KAFKA_PORT_9092_TCP_ADDR", "10.0.0.1", "MONGODB_PORT_27017_TCP", "tcp://10.0.0.2:27017", "HTTP_PROXY", "http://proxy",
		"KAFKA_OPTS", "-Djava.security.auth.login.config=/etc/jaas", "KAFKA_HEAP_OPTS", "-Xmx1g", "KAFKA_HOME", "/opt/kafka", "KAFKA_LOG4J_OPTS", "-D",
		"KAFKA_JMX_OPTS", "-D", "KAFKA_JVM_PERFORMANCE_OPTS", "-server", "LOG_DIR", "/var/log/kafka",
		"MEMORY_PRESSURE_WATCH", "/sys", "PATH", "/bin", "KAFKAESQUE", "1", "LOGNAME", "me",
	)
	if got := problems(t, env); got != nil {
		t.Errorf("problems %v", got)
	}
	if got := problems(t, with("HTTP_ADRR", ":8080")); len(got) != 1 || got[0] != "HTTP_ADRR: no such setting: did you mean HTTP_ADDR?" {
		t.Errorf("a misspelt name: %v", got)
	}
}

func TestSecretsAreNeverShown(t *testing.T) {
	env := with("KAFKA_SECURITY", "sasl_plaintext", "KAFKA_SASL_MECHANISM", "PLAIN", "KAFKA_SASL_USERNAME", "u", "KAFKA_SASL_PASSWORD", "geheim",
		"MONGODB_URI", "mongodb://user:p@ss@h1:1,h2:2/db?tlsCertificateKeyFilePassword=other&w=1")
	for _, bad := range []string{"", "KAFKA_LEASE"} {
		if bad != "" {
			env[bad] = "1s"
		}
		c, err := load(env)
		shown := strings.Builder{}
		for _, s := range c.Settings() {
			shown.WriteString(s.Name + "=" + s.Value + "\n")
		}
		if err != nil {
			shown.WriteString(err.Error())
		}
		for _, secret := range []string{"geheim", "p@ss", "other"} {
			if strings.Contains(shown.String(), secret) {
				t.Errorf("%q is shown in:\n%s", secret, shown.String())
			}
		}
	}
}

func TestOnlyMisspeltSettingsAreRefused(t *testing.T) {
	for name, want := range map[string]string{
		"KAFKA_BROKER": "KAFKA_BROKERS", "KAFKA_TOPIC": "KAFKA_TOPICS", "MONGODB_URL": "MONGODB_URI", "FLUSH_INTERVALL": "FLUSH_INTERVAL",
		"KAFKA_HEARTBEAT": "KAFKA_HEARTBEAT_INTERVAL", "MONGODB_BUCKET_MAXSPAN": "MONGODB_BUCKET_MAX_SPAN", "KAFKA_GROUPID": "KAFKA_GROUP_ID",
		"KAFKA_SASL_PASWORD_FILE": "KAFKA_SASL_PASSWORD", "COMMIT_INTERVALS": "COMMIT_INTERVAL", "KAFKA_BROKRES": "KAFKA_BROKERS",
	} {
		got := problems(t, with(name, "1"))
		if len(got) != 1 || got[0] != name+": no such setting: did you mean "+want+"?" {
			t.Errorf("%s: %q", name, got)
		}
		if got := Strange([]string{name + "=1"}); got != nil {
			t.Errorf("%s is strange: %v", name, got)
		}
	}
	for _, name := range []string{
		"COMMIT_SHA", "LOG_FILE", "EVENT_SOURCE", "HTTP_PORT", "HTTP_HOST", "LOG_LABEL", "KAFKA_BOOTSTRAP_SERVERS", "EVENT_NAME", "MONGODB_USER", "LOG_DIR_FILE",
		"MONGODB_PASSWORD", "COMMIT_REF", "BUCKET_NAME", "MEMORY_MB", "EVENT_ID", "LOG_COLOR", "KAFKA_VERSION", "KAFKA_", "FLUSH_CACHE", "EVENT_TYPE",
	} {
		if got := problems(t, with(name, "1")); got != nil {
			t.Errorf("%s: %q", name, got)
		}
		if got := Strange([]string{"PATH=/bin", "KAFKA_BROKERS=a:1", "KAFKA_TOPICS=a", name + "=1", "HTTP_PROXY=x"}); len(got) != 1 || got[0] != name {
			t.Errorf("%s: %v are strange", name, got)
		}
	}
}

// TestLoadDatabaseNeedsOnlyMongoDB checks that the settings of Kafka are ignored and those of MongoDB are not.
func TestLoadDatabaseNeedsOnlyMongoDB(t *testing.T) {
	load := func(pairs ...string) (Config, error) {
		env := map[string]string{}
		var environ []string
		for i := 0; i < len(pairs); i += 2 {
			env[pairs[i]] = pairs[i+1]
			environ = append(environ, pairs[i]+"="+pairs[i+1])
		}
		return LoadDatabase(func(name string) (string, bool) { value, ok := env[name]; return value, ok }, environ)
	}
	const uri = "mongodb://mongo:27017/metrics"
	c, err := load("MONGODB_URI", uri, "KAFKA_LEASE", "long", "KAFKA_BROKERZ", "x", "EVENT_FORMAT", "xml")
	if err != nil || c.MongoDB.Database != "metrics" || len(c.Kafka.Topics) != 0 || c.MongoDB.WriteTimeout != 5*time.Second {
		t.Errorf("%+v, %v", c.MongoDB, err)
	}
	if c, err := load("MONGODB_URI", uri, "KAFKA_TOPICS", "a,b"); err != nil || len(c.Kafka.Topics) != 2 {
		t.Errorf("topics %v, %v", c.Kafka.Topics, err)
	}
	for want, pairs := range map[string][]string{
		"MONGODB_URI: is required":                {"KAFKA_TOPICS", "a"},
		"did you mean MONGODB_URI?":               {"MONGODB_URL", uri},
		"MONGODB_URI: not a connection string":    {"MONGODB_URI", "mongo:27017"},
		"MONGODB_DATABASE: the database name":     {"MONGODB_URI", uri, "MONGODB_DATABASE", "a b"},
		"LOG_LEVEL=loud: must be one of debug,":   {"MONGODB_URI", uri, "LOG_LEVEL", "loud"},
		"SERVE_ADDR=9465: not an address":         {"MONGODB_URI", uri, "SERVE_ADDR", "9465"},
		"SERVE_TLS_KEY_FILE must be set together": {"MONGODB_URI", uri, "SERVE_TLS_CERT_FILE", "/cert.pem"},
		"did you mean SERVE_TOKEN?":               {"MONGODB_URI", uri, "SERVE_TOKN", "x"},
	} {
		if _, err := load(pairs...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", pairs, err, want)
		}
	}
}

// TestSettingsOfOtherClientsAreNotTakenSilently checks that a setting of another client causes a problem, unless our setting is
// set too.
func TestSettingsOfOtherClientsAreNotTakenSilently(t *testing.T) {
	got := problems(t, with("KAFKA_SECURITY_PROTOCOL", "SASL_SSL"))
	const want = "KAFKA_SECURITY_PROTOCOL: no such setting: did you mean KAFKA_SECURITY? If another program uses this variable, set KAFKA_SECURITY as well"
	if len(got) != 1 || got[0] != want {
		t.Errorf("%q, want %q", got, want)
	}
	for _, env := range [][]string{
		{"KAFKA_SECURITY_PROTOCOL", "SASL_SSL", "KAFKA_SECURITY", "plaintext"},
		{"KAFKA_SECURITY_PROTOCOL", ""},
		{"KAFKA_BOOTSTRAP_SERVERS", "a:1"}, // KAFKA_BROKERS is set
	} {
		if got := problems(t, with(env...)); got != nil {
			t.Errorf("%v: %q", env, got)
		}
	}
	if got := Strange([]string{"KAFKA_SECURITY_PROTOCOL=SSL", "KAFKA_SECURITY=tls"}); len(got) != 1 {
		t.Errorf("beside ours it is not mentioned: %v", got)
	}
	if got := problems(t, with("KAFKA_SASL_JAAS_CONFIG_FILE", "/etc/jaas")); len(got) != 1 || !strings.Contains(got[0], "did you mean KAFKA_SASL_USERNAME and KAFKA_SASL_PASSWORD?") {
		t.Errorf("%q", got)
	}
	names := map[string]bool{}
	for _, f := range fields(&Config{}) {
		names[f.name()] = true
	}
	for other, ours := range otherNames {
		for name := range strings.SplitSeq(ours, " and ") {
			if !names[name] || names[other] || !isOurs(other) {
				t.Errorf("%s stands for %s", other, name)
			}
		}
	}
}

// TestValuesAsTheyAreTyped checks values in upper and lower case, in the words of other clients, and with common units.
func TestValuesAsTheyAreTyped(t *testing.T) {
	c, err := load(with(
		"KAFKA_SECURITY", "SASL_SSL", "KAFKA_SASL_MECHANISM", "scram-sha512", "KAFKA_SASL_USERNAME", "u", "KAFKA_SASL_PASSWORD", `"quoted"`,
		"KAFKA_START", "Latest", "KAFKA_ISOLATION", "READ-UNCOMMITTED", "EVENT_FORMAT", "JSON", "LOG_LEVEL", "WARN", "SEGMENTS", "false", "DLQ_CREATE", "no",
		"DLQ_RETENTION", "30d", "MONGODB_EXPIRE_AFTER", "1w", "KAFKA_SESSION_TIMEOUT", "10s", "FLUSH_BYTES", "64M", "MEMORY_LIMIT", "2g",
		"EVENT_TIME_MIN", "-30d", "EVENT_TIME_MAX", "+1d12h", "EVENT_TIME_FORMAT", "%Y-%m-%d %H:%M:%S",
	))
	if err != nil {
		t.Fatal(err)
	}
	const day = 24 * time.Hour
	for name, got := range map[string]bool{
		"security": c.Security.Protocol == "sasl_tls", "mechanism": c.Security.SASLMechanism == "SCRAM-SHA-512", "password": c.Security.SASLPassword.Reveal() == `"quoted"`,
		"start": c.Kafka.Start.Policy == "latest", "isolation": c.Kafka.Isolation == "read_uncommitted", "format": c.Event.Format == "json",
		"level": c.Service.LogLevel == "warn", "segments": c.Flush.Segments == "off", "create": !c.DLQ.Create, "retention": c.DLQ.Retention == 30*day,
		"expiry": c.MongoDB.ExpireAfter == 7*day, "bytes": c.Flush.Bytes == 64<<20, "memory": c.Memory.Limit == 2<<30,
		"min": c.Event.TimeMin == measurement.FromRecord(-30*day), "max": c.Event.TimeMax == measurement.FromRecord(36*time.Hour),
	} {
		if !got {
			t.Errorf("%s is read wrongly: %+v", name, c)
		}
	}
	for text, want := range map[string]string{"PLAINTEXT": "plaintext", "SSL": "tls", "Tls": "tls", "SASL_PLAINTEXT": "sasl_plaintext"} {
		f := fieldOf(t, "KAFKA_SECURITY")
		if message := f.set(text); message != "" || f.render() != want {
			t.Errorf("KAFKA_SECURITY=%s: %s, shown as %s, want %s", text, message, f.render(), want)
		}
	}
	for text, want := range map[string]string{"plain": "PLAIN", "SCRAM-SHA512": "SCRAM-SHA-512", "oauthbearer": "OAUTHBEARER"} {
		f := fieldOf(t, "KAFKA_SASL_MECHANISM")
		if message := f.set(text); message != "" || f.render() != want {
			t.Errorf("KAFKA_SASL_MECHANISM=%s: %s, shown as %s, want %s", text, message, f.render(), want)
		}
	}
	if c, err := load(with("KAFKA_START", "2026-01-31")); err != nil || !c.Kafka.Start.Time.Equal(time.Date(2026, 1, 31, 0, 0, 0, 0, time.UTC)) {
		t.Errorf("%v, %v", c.Kafka.Start, err)
	}
}

func fieldOf(t *testing.T, name string) field {
	t.Helper()
	for _, f := range fields(&Config{}) {
		if f.name() == name {
			return f
		}
	}
	t.Fatalf("there is no %s", name)
	return field{}
}

// TestOtherWordsAreOfAllowedOnes checks that a tag names only values that the setting allows.
func TestOtherWordsAreOfAllowedOnes(t *testing.T) {
	for _, f := range fields(&Config{}) {
		for other := range strings.SplitSeq(f.tag("also"), ",") {
			if name, word, _ := strings.Cut(other, "="); other != "" && (!slices.Contains(f.allowed(), word) || slices.Contains(f.allowed(), name)) {
				t.Errorf("%s: %q", f.name(), other)
			}
		}
	}
}

// TestFormatsHaveTheirOwnPaths checks that fields without a setting have the default path of the format, even if another setting
// names the rest.
func TestFormatsHaveTheirOwnPaths(t *testing.T) {
	for _, test := range []struct{ settings, time, metaField, metas, fields string }{
		{"", "timestamp", "", "name,tags", "fields"},
		{"EVENT_TIME_FIELD=", "", "", "name,tags", "fields"},
		{"EVENT_TIME_FIELD=fields.at", "fields.at", "", "name,tags", "fields"},
		{"EVENT_META_FIELD=tags.host", "timestamp", "tags.host", "", "fields"},
		{"EVENT_META_FIELDS=name", "timestamp", "", "name", "fields"},
		{"EVENT_META_FROM=key", "timestamp", "meta", "", "fields"},
		{"EVENT_META_FIELDS=name EVENT_FIELDS=tags", "timestamp", "", "name", "tags"},
	} {
		pairs := []string{"EVENT_FORMAT", "influx"}
		for setting := range strings.FieldsSeq(test.settings) {
			name, value, _ := strings.Cut(setting, "=")
			pairs = append(pairs, name, value)
		}
		c, err := load(with(pairs...))
		if err != nil {
			t.Errorf("%s: %v", test.settings, err)
			continue
		}
		if p := c.Event.Paths(); p.TimeField != test.time || p.MetaField != test.metaField || strings.Join(p.MetaFields, ",") != test.metas || p.Fields != test.fields {
			t.Errorf("%s: %+v", test.settings, p)
		}
	}
}
