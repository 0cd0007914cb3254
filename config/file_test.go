package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// writeFile writes a file of settings and returns its path.
func writeFile(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "waterwheel.yaml")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// onlyFrom loads the settings of a file and of an environment, which has priority.
func onlyFrom(t *testing.T, content string, pairs ...string) (Config, error) {
	t.Helper()
	env := map[string]string{"CONFIG_FILE": writeFile(t, content), "MEMORY_LIMIT": "1GiB"}
	for i := 0; i < len(pairs); i += 2 {
		env[pairs[i]] = pairs[i+1]
	}
	return Load(func(name string) (string, bool) { text, ok := env[name]; return text, ok }, nil)
}

const wholeFile = `
# a comment
KAFKA_BROKERS: kafka-1:9092
KAFKA_TOPICS: [sensors, ^gw\., other]
MONGODB_URI: mongodb://db
FLUSH_COUNT: 1000
BUCKET_REOPEN: false
EVENT_TIME_FIELD: ts
EVENT_META_FIELDS: [sensor, site]
topics:
  sensors:
    EVENT_TIME_FIELD: at
    MONGODB_COLLECTION: readings
    MONGODB_EXPIRE_AFTER: 720h
    DLQ_TOPIC: ""
  ^gw\.:
    EVENT_LIST: readings
    MONGODB_GRANULARITY: minutes
  ^gw\.a:
    EVENT_LIST: never
`

func TestSettingsOfAFile(t *testing.T) {
	c, err := onlyFrom(t, wholeFile, "FLUSH_COUNT", "2000")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"sensors", `^gw\.`, "other"}, c.Kafka.Topics); diff != "" || c.Flush.Count != 2000 || c.Bucket.Reopen || c.Event.TimeField != "ts" {
		t.Error(diff, c.Flush.Count, c.Bucket.Reopen, c.Event.TimeField)
	}
	sensors, gateway, other := c.ForTopic("sensors"), c.ForTopic("gw.a"), c.ForTopic("other")
	if sensors.Event.TimeField != "at" || len(sensors.Event.MetaFields) != 2 || sensors.MongoDB.Granularity != "seconds" || len(sensors.Kafka.Topics) != 3 {
		t.Errorf("sensors: %+v", sensors)
	}
	if gateway.Event.TimeField != "ts" || strings.Join(gateway.Event.List, "") != "readings" || gateway.MongoDB.Granularity != "minutes" || gateway.Flush.Count != 2000 {
		t.Errorf("a gateway: %+v", gateway)
	}
	if other.Event.TimeField != "ts" || other.Event.List != nil || other.MongoDB.ExpireAfter != 0 {
		t.Errorf("other: %+v", other)
	}
	if c.SeriesFor("sensors") != "readings" || c.SeriesFor("gw.a") != "gw.a" || c.DeadLettersFor("sensors") != "" || c.DeadLettersFor("other") != "other.dlq" || !c.HasDeadLetters() {
		t.Error(c.SeriesFor("sensors"), c.SeriesFor("gw.a"), c.DeadLettersFor("sensors"), c.DeadLettersFor("other"))
	}
	shown := map[string]string{}
	for _, s := range c.Settings() {
		shown[s.Name] = s.Value
	}
	if shown["EVENT_TIME_FIELD"] != "ts" || shown["EVENT_TIME_FIELD[sensors]"] != "at" || shown[`EVENT_LIST[^gw\.]`] != "readings" {
		t.Error(shown)
	}
	if _, differs := shown["EVENT_META_FIELDS[sensors]"]; differs {
		t.Error("what does not differ is shown for a topic")
	}
}

// TestAliasesOfAFile checks that a value, and a part for a topic, may be an alias of another one.
func TestAliasesOfAFile(t *testing.T) {
	c, err := onlyFrom(t, "{KAFKA_BROKERS: k:1, KAFKA_TOPICS: [a, b], MONGODB_URI: mongodb://db, EVENT_META_FIELDS: &m [site, id],"+
		"topics: {a: &a {EVENT_LIST: x, EVENT_TIME_FIELD: at}, b: *a}}")
	if err != nil || c.ForTopic("b").Event.TimeField != "at" || len(c.Event.MetaFields) != 2 {
		t.Errorf("%v: %+v", err, c.ForTopic("b").Event)
	}
	if c, err = onlyFrom(t, "KAFKA_BROKERS: k:1\nKAFKA_TOPICS: |\n  a\nMONGODB_URI: mongodb://db\n---\n# nothing\n"); err != nil || c.Kafka.Topics[0] != "a" {
		t.Errorf("a block, and a line --- at the end: %v, %v", c.Kafka.Topics, err)
	}
	if c, err = onlyFrom(t, "{KAFKA_BROKERS: k:1, KAFKA_TOPICS: &t a, MONGODB_URI: mongodb://db, EVENT_META_FIELDS: *t}"); err != nil || c.Event.MetaFields[0] != "a" {
		t.Errorf("%v: %v", err, c.Event.MetaFields)
	}
}

func TestTheEnvironmentWinsOverTheFile(t *testing.T) {
	password := writeFile(t, "of the environment\n")
	c, err := onlyFrom(t, wholeFile+"KAFKA_SECURITY: sasl_tls\nKAFKA_SASL_MECHANISM: PLAIN\nKAFKA_SASL_USERNAME: u\nKAFKA_SASL_PASSWORD: of the file\nDLQ_TOPIC: x\n",
		"EVENT_TIME_FIELD", "when", "KAFKA_SASL_PASSWORD_FILE", password, "DLQ_TOPIC", "")
	if err != nil {
		t.Fatal(err)
	}
	if c.ForTopic("sensors").Event.TimeField != "when" || c.Security.SASLPassword != "of the environment" || c.DLQ.Topic != "" {
		t.Error(c.ForTopic("sensors").Event.TimeField, c.Security.SASLPassword.Reveal(), c.DLQ.Topic)
	}
	if w := c.Warnings(); len(w) != 1 || !strings.Contains(w[0].Message, "EVENT_TIME_FIELD of topic sensors has no effect") {
		t.Errorf("%v", w)
	}
}

// TestTopicsOfTheFileThatAreNotRead checks the warning of settings without effect.
func TestTopicsOfTheFileThatAreNotRead(t *testing.T) {
	for topics, want := range map[string]string{
		"sensors,other":  `the settings of sensor, ^gw\., odd have no effect: KAFKA_TOPICS does not read these topics`,
		`sensors,^gw\.`:  "the settings of sensor, odd have no effect: KAFKA_TOPICS does not read these topics",
		`^sens,^od,gw.1`: "",
		"sensor,odd":     `the settings of ^gw\. have no effect: KAFKA_TOPICS does not read this topic`,
	} {
		c, err := onlyFrom(t, `{KAFKA_BROKERS: "k:1", MONGODB_URI: "mongodb://db", topics: {sensor: {EVENT_LIST: a}, ^gw\.: {EVENT_LIST: b}, odd: {}}}`, "KAFKA_TOPICS", topics)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, w := range c.Warnings() {
			got += w.Message
		}
		if got != want {
			t.Errorf("%s: %q, want %q", topics, got, want)
		}
	}
}

func TestWrongFiles(t *testing.T) {
	const fine = "KAFKA_BROKERS: k:1\nKAFKA_TOPICS: a,b\nMONGODB_URI: mongodb://db\n"
	for content, want := range map[string]string{
		fine + "EVENT_TYME_FIELD: x":                    `waterwheel.yaml:4: "EVENT_TYME_FIELD" is not a setting: did you mean EVENT_TIME_FIELD?`,
		fine + "topic:\n  a: {EVENT_LIST: x}":           `waterwheel.yaml:4: "topic" is not a setting: did you mean topics?`,
		fine + "a b":                                    "is not YAML",
		fine + "KAFKA_TOPICS: c":                        `waterwheel.yaml:4: "KAFKA_TOPICS" appears twice`,
		fine + "---\nEVENT_LIST: a":                     "waterwheel.yaml:4: has more than one YAML document",
		fine + "topics:\n  ^a(:\n    EVENT_LIST: b":     `waterwheel.yaml:5: topic "^a(" is not a regular expression: `,
		fine + "topics:\n  a:\n    <<: {EVENT_LIST: b}": "waterwheel.yaml:6: merge keys (<<) are not supported",
		"- a":                        "must be a YAML mapping",
		fine + "FLUSH_COUNT: {a: b}": "waterwheel.yaml:4: FLUSH_COUNT must be a text, a number",
		fine + "FLUSH_COUNT: many":   "FLUSH_COUNT=many: ",
		fine + "topics: [a]":         "topics must be a YAML mapping",
		fine + "topics:\n  a:\n    FLUSH_COUNT: 1":                                 "waterwheel.yaml:6: FLUSH_COUNT cannot differ by topic",
		fine + "topics:\n  a:\n    EVENT_MAX_BYTES: 1":                             "EVENT_MAX_BYTES cannot differ by topic",
		fine + "topics:\n  'a b':\n    EVENT_LIST: x":                              "not a valid topic name",
		fine + "topics:\n  a:\n    EVENT_FORMAT: xml":                              "EVENT_FORMAT=xml: ",
		fine + "topics:\n  a:\n    EVENT_META_FROM: key\n    EVENT_META_FIELDS: x": "(CONFIG_FILE, topic a, line 7)",
		fine + "topics:\n  a:\n    MONGODB_COLLECTION: b.buckets":                  "would both use the collection",
		fine + "topics:\n  ^(:\n    EVENT_LIST: x":                                 "is not a regular expression",
		fine + "CONFIG_FILE: x":                                                    `"CONFIG_FILE" is not a setting`,
	} {
		_, err := onlyFrom(t, content)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Count(err.Error(), "\n") != 1 {
			t.Errorf("%s\n%v, want one line with %s", content, err, want)
		}
	}
	if _, err := Load(func(name string) (string, bool) { return "/nowhere/at/all.yaml", name == "CONFIG_FILE" }, nil); err == nil || !strings.Contains(err.Error(), "CONFIG_FILE=/nowhere/at/all.yaml: cannot be read: no such file") {
		t.Error(err)
	}
}

// TestTopicsHaveTheirOwnSchemas checks schemas in the file itself and in separate files.
func TestTopicsHaveTheirOwnSchemas(t *testing.T) {
	const schema = `{"type":"record","name":"R","fields":[]}`
	c, err := onlyFrom(t, `
KAFKA_BROKERS: kafka-1:9092
KAFKA_TOPICS: [inline, file, plain]
MONGODB_URI: mongodb://db
EVENT_FORMAT: avro
EVENT_SCHEMA: '`+schema+`'
topics:
  file:
    EVENT_SCHEMA_FILE: `+writeFile(t, "[\"null\",\n"+schema+"]\n")+`
  plain:
    EVENT_FORMAT: json
`)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range c.Settings() {
		if strings.Contains(s.Value, "\n") {
			t.Errorf("%s is shown in several lines: %q", s.Name, s.Value)
		}
	}
	for topic, want := range map[string]string{"inline": "avro " + schema, "file": "avro [\"null\",\n" + schema + "]", "plain": "json " + schema} {
		e := c.ForTopic(topic).Event
		if got := e.Format + " " + e.Schema; got != want {
			t.Errorf("%s: %s, want %s", topic, got, want)
		}
	}
}

// TestFormatsOfTopicsHaveTheirOwnPaths checks that a topic with another event format has the default paths of that format, unless
// they are set.
func TestFormatsOfTopicsHaveTheirOwnPaths(t *testing.T) {
	c, err := onlyFrom(t, `
KAFKA_BROKERS: kafka-1:9092
KAFKA_TOPICS: [telegraf, otel, plain]
MONGODB_URI: mongodb://db
EVENT_FORMAT: influx
topics:
  otel:
    EVENT_FORMAT: otlp
    EVENT_COMPRESSION: gzip
  plain:
    EVENT_FORMAT: json
    EVENT_META_FIELDS: [sensor]
`)
	if err != nil {
		t.Fatal(err)
	}
	for topic, want := range map[string]string{
		"telegraf": "timestamp name,tags fields none",
		"otel":     "time kind,name,unit,temporality,monotonic,resource,scope,attributes  gzip",
		"plain":    "time sensor  none",
	} {
		e := c.ForTopic(topic).Event
		if got := e.TimeField + " " + strings.Join(e.MetaFields, ",") + " " + e.Fields + " " + e.Compression; got != want {
			t.Errorf("%s: %s, want %s", topic, got, want)
		}
	}
}
