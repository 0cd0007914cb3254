package config

import (
	"strings"
	"time"

	"waterwheel/internal/measurement"
)

// topicPlaceholder stands for a topic in MONGODB_COLLECTION and DLQ_TOPIC.
const topicPlaceholder = "{topic}"

// Config is every setting of the program. The tags of a field are its definition:
//
//	env    name, and ",required" or ",default=" and the default
//	doc    what it means, for the reference and for error messages
//	min    smallest value allowed, max the largest, in the field's own notation
//	oneof  the values allowed, comma-separated; taken in any case
//	also   other words for some of them, as word=value, comma-separated
//	hint   the end of the message about a value that is not allowed
//	unit   what a number counts, in the singular
//	empty  the variable may be set to the empty string, and what that means; elsewhere empty counts as not set
//	shown  what the reference shows as default where the env tag cannot say it
type Config struct {
	Kafka    Kafka    `title:"Kafka"`
	Security Security `title:"Security of Kafka connections"`
	Event    Event    `title:"Events"`
	Registry Registry `title:"Schema registry"`
	MongoDB  MongoDB  `title:"MongoDB"`
	Bucket   Bucket   `title:"Buckets"`
	Flush    Flush    `title:"Flushes and commits"`
	Rollup   Rollup   `title:"Rollups"`
	Memory   Memory   `title:"Memory"`
	DLQ      DLQ      `title:"Dead letters"`
	Service  Service  `title:"Service"`
	Serve    Serve    `title:"Reading over HTTP"`

	topics []topicConfig // the settings of single topics, from CONFIG_FILE
	hidden []string      // the settings of single topics that the environment overrides
}

// Kafka holds what is read, and by which member of which group.
type Kafka struct {
	Brokers           []string      `env:"KAFKA_BROKERS,required" doc:"bootstrap addresses, host:port, comma-separated"`
	Topics            []string      `env:"KAFKA_TOPICS,required" doc:"topics to read, comma-separated. One that begins with ^ is a regular expression (RE2) for the beginning of names, as ^sensors\\.; end it with $ for whole names: all topics that match are read, also those that are created later, from their log start. Dead-letter topics and names that begin with __ never match"`
	GroupID           string        `env:"KAFKA_GROUP_ID,default=waterwheel" doc:"consumer group"`
	Start             Start         `env:"KAFKA_START,default=earliest" doc:"where a group without any commit for a topic begins: earliest, latest, an RFC 3339 time, or a date, which is its first moment in UTC. Partitions added later and topics created again begin at the log start"`
	OutOfRange        string        `env:"KAFKA_OUT_OF_RANGE,default=stop" oneof:"stop,earliest,latest" doc:"committed offset beyond the log end: stop (the partition, with an alarm), earliest or latest. Behind the log start it always goes on at the log start, counted as lost by retention"`
	SkipCorrupt       Places        `env:"KAFKA_SKIP_CORRUPT" doc:"record batches that are skipped because they cannot be read, each as topic/partition/offset, comma-separated: what the message of the stopped partition says. Each becomes one letter, unreadable, with the batch's bytes. Besides damage and what Java's client refuses, batches are not read that unfold to more than 128 MiB, that unfold to more than 8 MiB and refer back farther than that (zstd's ultra levels, one snappy block), that have more than 4,194,304 records, or whose records' offsets do not ascend within the batch"`
	Isolation         string        `env:"KAFKA_ISOLATION,default=read_committed" oneof:"read_committed,read_uncommitted" doc:"whether records of open and aborted transactions are read"`
	SessionTimeout    time.Duration `env:"KAFKA_SESSION_TIMEOUT,default=10s" min:"1s" max:"30m" doc:"a member that is silent for this long leaves the group"`
	HeartbeatInterval time.Duration `env:"KAFKA_HEARTBEAT_INTERVAL,default=1s" min:"50ms" max:"10m" doc:"time between two heartbeats; at most a third of the session timeout"`
	RebalanceTimeout  time.Duration `env:"KAFKA_REBALANCE_TIMEOUT,default=60s" min:"1s" max:"1h" doc:"how long a rebalance waits for a member; half of it must be more than MONGODB_WRITE_TIMEOUT"`
	Lease             time.Duration `env:"KAFKA_LEASE,default=4s" min:"150ms" max:"10m" doc:"how long one answered commit entitles to write; at least 3 × COMMIT_INTERVAL. After a crash the next owner waits this long + 2 × MONGODB_WRITE_TIMEOUT, after Kafka's session timeout"`
	InstanceID        string        `env:"KAFKA_INSTANCE_ID" doc:"static membership: a restart within the session timeout keeps its partitions. Another one for each consumer"`
	FetchBytes        Size          `env:"KAFKA_FETCH_BYTES,default=2MiB" min:"1KiB" max:"1GiB" doc:"most that is fetched for one partition in one request"`
	FetchWait         time.Duration `env:"KAFKA_FETCH_WAIT,default=500ms" min:"1ms" max:"1m" doc:"how long the broker waits for new records"`
}

// Security holds how connections to Kafka are protected.
type Security struct {
	Protocol      string `env:"KAFKA_SECURITY,default=plaintext" oneof:"plaintext,tls,sasl_plaintext,sasl_tls" also:"ssl=tls,sasl_ssl=sasl_tls" doc:"encryption and authentication; SSL and SASL_SSL, as Java's client calls them, mean tls and sasl_tls"`
	SASLMechanism string `env:"KAFKA_SASL_MECHANISM" oneof:"PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER" hint:". AWS_MSK_IAM and GSSAPI are not supported: use SCRAM-SHA-512 at Amazon MSK" doc:"needed with sasl_plaintext and sasl_tls"`
	SASLUsername  string `env:"KAFKA_SASL_USERNAME" doc:"user; not with OAUTHBEARER"`
	SASLPassword  Secret `env:"KAFKA_SASL_PASSWORD" doc:"password"`

	OAuthTokenURL     string   `env:"KAFKA_OAUTH_TOKEN_URL" doc:"with OAUTHBEARER: endpoint that gives tokens to a client with its secret (client credentials). Another token is asked for when a fifth of its time is left, or half a minute"`
	OAuthClientID     string   `env:"KAFKA_OAUTH_CLIENT_ID" doc:"the client"`
	OAuthClientSecret Secret   `env:"KAFKA_OAUTH_CLIENT_SECRET" doc:"the client's secret"`
	OAuthScope        []string `env:"KAFKA_OAUTH_SCOPE" doc:"scopes of the token, comma-separated"`
	OAuthParameters   []string `env:"KAFKA_OAUTH_PARAMETERS" doc:"what else the endpoint wants, each as name=value, comma-separated, as audience=kafka"`
	OAuthCAFile       string   `env:"KAFKA_OAUTH_CA_FILE" doc:"PEM file of the authorities to trust for the endpoint instead of the system's"`
	OAuthTokenFile    string   `env:"KAFKA_OAUTH_TOKEN_FILE" doc:"instead of KAFKA_OAUTH_TOKEN_URL: a file with a token, which something else keeps current. It is read for each login"`
	OAuthExtensions   []string `env:"KAFKA_OAUTH_EXTENSIONS" doc:"extensions that go to the broker with the token, each as name=value, comma-separated, as logicalCluster=lkc-1,identityPoolId=pool-1 at Confluent Cloud"`

	TLSCAFile     string `env:"KAFKA_TLS_CA_FILE" doc:"PEM file of the authorities to trust instead of the system's; read again when it changes, as the next two"`
	TLSCertFile   string `env:"KAFKA_TLS_CERT_FILE" doc:"PEM file of the client's certificate"`
	TLSKeyFile    string `env:"KAFKA_TLS_KEY_FILE" doc:"PEM file of the client's key"`
	TLSServerName string `env:"KAFKA_TLS_SERVER_NAME" doc:"name the brokers' certificates must have, where it is not their address"`
	TLSInsecure   bool   `env:"KAFKA_TLS_INSECURE,default=false" doc:"accept any certificate: encrypted, but with whom is not known"`
}

// Event holds how records become measurements.
type Event struct {
	Format      string            `env:"EVENT_FORMAT,default=json" oneof:"json,extjson,bson,influx,otlp,otlp_json,avro,protobuf" doc:"json, extjson (relaxed or canonical Extended JSON), bson, influx (lines of InfluxDB's line protocol, as Telegraf's Kafka output writes by default; EVENT_TIME_FIELD, EVENT_META_FIELDS and EVENT_FIELDS are then timestamp, name,tags and fields unless set), otlp or otlp_json (requests of OpenTelemetry's protocol with metrics in protobuf or JSON, as the collector's Kafka exporter writes; EVENT_META_FIELDS is then all that identifies a stream unless set), avro (one record in Avro's binary encoding, written by the schema in EVENT_SCHEMA, or by one of SCHEMA_REGISTRY_URL), or protobuf (one message, EVENT_PROTOBUF_MESSAGE of EVENT_PROTOBUF_FILE, or the one that the record names in a schema of SCHEMA_REGISTRY_URL). A record holds one object or, not in bson, an array of them, or several of either one after another (NDJSON), or lines, or data points: up to 100 bad elements become letters of their own, with more the record is one letter and nothing of it is stored"`
	Schema      string            `env:"EVENT_SCHEMA" doc:"with EVENT_FORMAT=avro: the Avro schema that all events are written by, as JSON. EVENT_SCHEMA_FILE is the path of the file with it, as reading.avsc. Not set: each record names its schema, which SCHEMA_REGISTRY_URL has"`
	Descriptors Content           `env:"EVENT_PROTOBUF_FILE" doc:"with EVENT_FORMAT=protobuf: the path of the file with the set of descriptors of all events, as protoc --include_imports --descriptor_set_out=FILE or buf build -o FILE writes it. It is read once, at start. It holds bytes and no text, so no setting has the set itself. Not set: each record names its schema, which SCHEMA_REGISTRY_URL has"`
	Message     string            `env:"EVENT_PROTOBUF_MESSAGE" doc:"with EVENT_FORMAT=protobuf: the full name of the message that events are, as plant.air.Reading. Without EVENT_PROTOBUF_FILE it may be left out: each record names its message then, and with it others are letters"`
	Decimals    string            `env:"EVENT_DECIMALS,default=decimal128" oneof:"decimal128,double" doc:"what decimals of Avro and of Confluent's Protobuf become: decimal128 (exact, up to 34 digits; one with more is a letter) or double (the nearest, to calculate with)"`
	Compression string            `env:"EVENT_COMPRESSION,default=none" oneof:"none,gzip,zlib,zstd,auto" doc:"how the producer compresses each value by itself, which is not Kafka's compression of batches: none, gzip, zlib, zstd, or auto (gzip, zlib or zstd where the first bytes of a value show it, else none). EVENT_MAX_BYTES bounds a value before and after. Keys are not compressed"`
	Framing     string            `env:"EVENT_FRAMING,default=none" oneof:"none,confluent,auto" doc:"with avro without EVENT_SCHEMA, and with protobuf without EVENT_PROTOBUF_FILE, it is confluent: the frame, or the header __value_schema_id, names the schema of a record, and of a key that has one. Else what stands before the event in a record's value: none, confluent (a zero byte and the four bytes of a schema's id, as Confluent's JSON Schema serializer writes; not with bson), or auto (confluent where the value begins with a zero byte, else none). With confluent and auto the same is taken off a key that has it"`
	Parse       []string          `env:"EVENT_PARSE" doc:"dotted paths to texts that hold JSON, or JSON in base64, comma-separated: each becomes what it holds. A path may lead to what EVENT_LIST takes apart, or into its elements"`
	List        []string          `env:"EVENT_LIST" doc:"dotted paths to lists of objects, comma-separated. Each object is an event of its own, which inherits all that is beside the lists and that it does not have itself. Lists in these lists are not taken apart"`
	Skip        []string          `env:"EVENT_SKIP" doc:"conditions, comma-separated; an event that meets one is skipped and counted, and no letter: path (it has a value there), !path (it has none), path=value, path!=value. Null is no value"`
	FieldName   string            `env:"EVENT_FIELD_NAME" doc:"dotted path to the name of the event's value, for events as {\"name\": \"temp\", \"value\": 21}, which becomes the field temp"`
	FieldValue  string            `env:"EVENT_FIELD_VALUE" doc:"dotted path to the value that EVENT_FIELD_NAME names; several with | between them, of which the first counts that is there"`
	Rename      []string          `env:"EVENT_RENAME" doc:"new names of fields, comma-separated, each as path=name. All settings above have the old name, those of time, meta, fields and EVENT_DROP the new one"`
	Root        string            `env:"EVENT_ROOT" doc:"dotted path to the object that is the event, in an envelope, as payload or payload.after; what is outside is not stored. The other paths are relative to it, but for those that begin with a slash, which begin at the envelope's top. A record whose root is null (a deleted row) is skipped as a tombstone is. Not set: the whole object"`
	TimeField   string            `env:"EVENT_TIME_FIELD,default=time" empty:"the Kafka record's timestamp" doc:"dotted path to the measurement's time in the event; several with | between them, as ts|timestamp, of which the first counts that is there and not null. header:name is a header of the record"`
	TimeFormat  string            `env:"EVENT_TIME_FORMAT,default=auto" doc:"auto, rfc3339, unix, unix_ms, unix_us, unix_ns, a Go layout as 2006-01-02 15:04:05, or a strftime pattern as %Y-%m-%d %H:%M:%S. Both read a text without a zone as UTC or as EVENT_TIME_ZONE says, and with digits alone, as 20060102, numbers too. auto: an RFC 3339 string (also the forms of ISO 8601 with an offset as +0100 or +01, a blank before it, a comma before the fraction, without seconds, or without hyphens and colons as 20260301T120000Z), an Extended JSON date, or a number: below 1e11 seconds, below 1e14 milliseconds, below 1e17 microseconds, else nanoseconds; a number sent as a string where its whole part has 10, 13, 16 or 19 digits, without sign and exponent, which tells its unit. unix and its kin: a number, also as a string"`
	TimeZone    string            `env:"EVENT_TIME_ZONE" doc:"zone of times that do not say theirs, as Europe/Berlin. Of the hour that comes twice in autumn, it is the one nearer to the record's timestamp. Not set: EVENT_TIME_FORMAT=auto refuses such times, a layout reads them as UTC"`
	TimeExact   string            `env:"EVENT_TIME_EXACT" doc:"name of a field that gets the time in nanoseconds since 1970, as a 64-bit integer: a date of MongoDB has milliseconds"`
	TimeMin     measurement.Bound `env:"EVENT_TIME_MIN,default=1990-01-01T00:00:00Z" doc:"earliest time accepted: an RFC 3339 time, a date, or a distance from the record's Kafka timestamp as +24h or -30d"`
	TimeMax     measurement.Bound `env:"EVENT_TIME_MAX,default=+24h" doc:"latest time accepted, written as EVENT_TIME_MIN. Whatever both say, only times of the years 0 to 9999 are accepted; a distance does not bind a record without a timestamp (-1)"`
	MetaField   string            `env:"EVENT_META_FIELD,default=meta" empty:"as EVENT_META_FROM says" doc:"dotted path to the series' identity in the event. key: is the record's key, key:path a member of a key that is an object, header:name a header of the record"`
	MetaFields  []string          `env:"EVENT_META_FIELDS" doc:"instead of EVENT_META_FIELD: several paths, comma-separated, that make meta an object. Each is name=path, or a path, whose last name it gets, also of the record's key and headers; what an event does not have is absent, and one must be there"`
	Fields      string            `env:"EVENT_FIELDS" doc:"dotted path to the object whose members become the measurement's fields, as fields in Telegraf's events; nothing else is stored but time and meta. Not set: all that is neither time nor meta"`
	Drop        []string          `env:"EVENT_DROP" doc:"dotted paths of fields that are left out, comma-separated; names that begin with $, as $schema, too"`
	MetaFrom    string            `env:"EVENT_META_FROM,default=value" oneof:"value,key,none" doc:"where a series' identity comes from: value (EVENT_META_FIELD), key (the record's key, text or a JSON object; behind a schema registry's frame any JSON value, and with avro and protobuf by a registry any value of the key's own schema), or none"`
	Numbers     string            `env:"EVENT_NUMBERS,default=json" oneof:"json,text" doc:"how numbers in fields are written: json, or text (also in texts: a text that is a number as JSON writes them, NaN or Infinity, is stored as a number; one with a decimal comma is a letter; all others stay texts)"`
	Nulls       string            `env:"EVENT_NULLS,default=keep" oneof:"keep,drop" doc:"fields that are null: keep (null is stored) or drop (they are left out, also inside of objects). Nulls in arrays and in meta stay"`
	DottedNames string            `env:"EVENT_DOTTED_NAMES,default=nest" oneof:"nest,reject" doc:"field names with dots: nest (a.b becomes {a: {b}}) or reject"`
	MaxBytes    Size              `env:"EVENT_MAX_BYTES,default=1MiB" min:"1B" max:"64MiB" doc:"longest record accepted; with EVENT_COMPRESSION also the longest that one unfolds to"`
}

// Registry holds where the schemas of records are.
type Registry struct {
	URLs        []string      `env:"SCHEMA_REGISTRY_URL" doc:"addresses of the servers of a schema registry, http:// or https://, comma-separated; the next is asked when one does not answer. It is asked with EVENT_FORMAT=avro where EVENT_SCHEMA is not set, and with EVENT_FORMAT=protobuf where EVENT_PROTOBUF_FILE is not set"`
	Username    string        `env:"SCHEMA_REGISTRY_USERNAME" doc:"user of the registry"`
	Password    Secret        `env:"SCHEMA_REGISTRY_PASSWORD" doc:"password"`
	Token       Secret        `env:"SCHEMA_REGISTRY_TOKEN" doc:"instead of user and password: a bearer token"`
	Timeout     time.Duration `env:"SCHEMA_REGISTRY_TIMEOUT,default=5s" min:"100ms" max:"1m" doc:"one question to the registry, with all its requests"`
	UnknownWait time.Duration `env:"SCHEMA_UNKNOWN_WAIT,default=30s" min:"0s" max:"24h" doc:"how long the registry is asked for a schema that it says it does not have. Then the record is a letter, unknown_schema; a partition stops instead where the registry has given no schema of its topic before"`
	TLSCAFile   string        `env:"SCHEMA_REGISTRY_TLS_CA_FILE" doc:"PEM file of the authorities to trust instead of the system's"`
	TLSCertFile string        `env:"SCHEMA_REGISTRY_TLS_CERT_FILE" doc:"PEM file of the client's certificate"`
	TLSKeyFile  string        `env:"SCHEMA_REGISTRY_TLS_KEY_FILE" doc:"PEM file of the client's key"`
	TLSInsecure bool          `env:"SCHEMA_REGISTRY_TLS_INSECURE,default=false" doc:"accept any certificate: encrypted, but with whom is not known"`
}

// MongoDB holds where buckets are stored, and how the collection is defined.
type MongoDB struct {
	URI            URI           `env:"MONGODB_URI,required" doc:"connection string, mongodb:// or mongodb+srv://"`
	Database       string        `env:"MONGODB_DATABASE" shown:"the URI's, else waterwheel" doc:"database"`
	Collection     string        `env:"MONGODB_COLLECTION,default={topic}" doc:"name of the time series, {topic} standing for the topic. Buckets go to <name>.buckets, claims to <name>.partitions, options to <name>.options"`
	TimeField      string        `env:"MONGODB_TIME_FIELD,default=time" doc:"name of the time in the stored measurement"`
	MetaField      string        `env:"MONGODB_META_FIELD,default=meta" doc:"name of the series' identity in the stored measurement"`
	MetaIndexes    []string      `env:"META_INDEXES" doc:"parts of meta that queries ask for, comma-separated, as meta.sensor,meta.site (meta is what MONGODB_META_FIELD says): an index on each and the time, newest first, is made by init and run where it is missing. Without one, a query for a part of meta reads the buckets of all series. A path that is taken out here keeps its index"`
	Granularity    string        `env:"MONGODB_GRANULARITY" oneof:"seconds,minutes,hours" shown:"seconds" doc:"bucket span and rounding: seconds (1 h, 1 min), minutes (24 h, 1 h), hours (30 d, 24 h)"`
	BucketMaxSpan  time.Duration `env:"MONGODB_BUCKET_MAX_SPAN" min:"1s" max:"8760h" doc:"instead of MONGODB_GRANULARITY: the time a bucket spans, whole seconds"`
	BucketRounding time.Duration `env:"MONGODB_BUCKET_ROUNDING" min:"1s" max:"8760h" doc:"must equal MONGODB_BUCKET_MAX_SPAN"`
	ExpireAfter    time.Duration `env:"MONGODB_EXPIRE_AFTER" min:"1s" shown:"never" doc:"measurements older than this are deleted, whole seconds"`
	View           string        `env:"MONGODB_VIEW,default=auto" oneof:"auto,internal,portable,none" doc:"the view <name> that shows measurements, made at the start: internal (MongoDB's own stage $_internalUnpackBucket, which MongoDB does not document; filters on time and meta read only the buckets they need), portable (documented stages only; every filter reads all buckets), auto (the first of both that this MongoDB runs; one that works is kept) or none (one made before is dropped)"`
	WriteTimeout   time.Duration `env:"MONGODB_WRITE_TIMEOUT,default=5s" min:"100ms" max:"10m" doc:"one bulk write, from sending to the answer"`
}

// seriesFor returns the name of the time series of a topic.
func (m MongoDB) seriesFor(topic string) string {
	return strings.ReplaceAll(m.Collection, topicPlaceholder, topic)
}

// Bucket holds when a bucket is full.
type Bucket struct {
	MaxCount   int32 `env:"BUCKET_MAX_COUNT,default=1000" min:"1" max:"1000000" unit:"measurement" doc:"most in one bucket"`
	MaxBytes   Size  `env:"BUCKET_MAX_BYTES,default=125KiB" min:"1B" max:"12MiB" doc:"largest bucket"`
	MinCount   int32 `env:"BUCKET_MIN_COUNT,default=10" min:"1" max:"1000000" unit:"measurement" doc:"a bucket of fewer may be larger than BUCKET_MAX_BYTES"`
	CacheBytes Size  `env:"BUCKET_CACHE_BYTES,default=0B" min:"0B" max:"1TiB" doc:"a partition's buckets shrink when it has more of them than fit into a cache of this size: give each partition its share of the database's cache, since none knows of the others; 0: off"`
	Reopen     bool  `env:"BUCKET_REOPEN,default=true" doc:"look stored buckets up before opening new ones"`
	DeltaMax   int32 `env:"BUCKET_DELTA_MAX,default=16" min:"0" max:"1000000" unit:"measurement" doc:"most that are added to a stored bucket in one write; more go into a new bucket. 0: no limit"`
}

// Flush holds when measurements are written and offsets committed.
type Flush struct {
	Interval            time.Duration `env:"FLUSH_INTERVAL,default=5s" min:"1ms" max:"1h" doc:"longest time a measurement waits to be written"`
	Bytes               Size          `env:"FLUSH_BYTES,default=64MiB" min:"1KiB" max:"16GiB" doc:"a partition with this much waiting is written at once"`
	Count               int           `env:"FLUSH_COUNT,default=500000" min:"1" max:"100000000" unit:"measurement" doc:"a partition with this many waiting is written at once"`
	CommitInterval      time.Duration `env:"COMMIT_INTERVAL,default=1s" min:"10ms" max:"1m" doc:"time between two commits of offsets"`
	Segments            string        `env:"SEGMENTS,default=auto" oneof:"auto,on,off" also:"true=on,false=off,yes=on,no=off" doc:"what arrives for series that send rarely is written together into segments first, documents of many series, and put into buckets every COMPACT_INTERVAL: far less work for MongoDB, and as soon visible. auto: in a collection that is new, or has segments already, where this MongoDB has a view that shows them (not with MONGODB_VIEW=none); on: always, so without such a view only waterwheel query and the package reader show what is not in buckets yet; off: everything is written into buckets at once, and the segments that a collection has are shown and put into buckets"`
	CompactInterval     time.Duration `env:"COMPACT_INTERVAL,default=10m" min:"1s" max:"24h" doc:"how long measurements stay in segments before they are put into buckets; longer makes fuller buckets, and more segments that a query looks through"`
	CompactDelay        time.Duration `env:"COMPACT_VISIBILITY_DELAY,default=4m" min:"2s" max:"1h" doc:"how long before their buckets are shown in their place segments are compacted. Longer than it takes another consumer to take over from one that died: else, and where none does, queries may show some measurements twice until one does"`
	SegmentRetention    time.Duration `env:"SEGMENT_RETENTION,default=10m" min:"1s" max:"24h" doc:"how long segments are kept after they have ended: longer than queries take"`
	SegmentRows         int32         `env:"SEGMENT_MEASUREMENTS,default=250" min:"10" max:"1000000" unit:"measurement" doc:"most in one segment, which are of series that are neighbours by the values of META_INDEXES, else by their meta. Fewer let a query of one series read less of what is not in buckets yet, and cost MongoDB more to write and to compact. A flush of fewer than fifty times as many is cut finer, down to 50 in a segment"`
	SegmentMeasurements int           `env:"SEGMENT_MEASUREMENTS_MAX,default=500000" min:"1000" doc:"from how many measurements in the segments of a partition on they are compacted at once, whatever COMPACT_INTERVAL says; at twice as many compaction comes before new writes"`
}

// Rollup holds which totals of measurements are stored, and for which windows.
type Rollup struct {
	Levels     RollupLevels  `env:"ROLLUP_LEVELS" shown:"off" doc:"totals that are kept of the numeric fields of each series: 1m (by minute), 1h (by hour) and 1d (by day, which needs 1h), comma-separated, each with a colon and how long its rows are kept, unless for ever, as 1m:2160h,1h:17520h,1d. Level 1h of measurements is the time series measurements_1h"`
	Fields     []string      `env:"ROLLUP_FIELDS" shown:"all" doc:"fields that have totals, comma-separated, as celsius,wind.*; * stands for any text"`
	Interval   time.Duration `env:"ROLLUP_INTERVAL,default=1h" min:"1s" max:"24h" doc:"time between two passes that bring the totals of a partition up to date. A longer one costs less: a pass costs by series and not by measurement"`
	Share      Share         `env:"ROLLUP_SHARE,default=0.1" doc:"part of its time that a process works on totals, 0.01 to 1; it rests in between, except when it is two intervals behind"`
	Nested     RollupNested  `env:"ROLLUP_NESTED" shown:"off" doc:"collection in which one document for each series and month is kept, with days, hours and minutes inside each other; with a colon behind it and aggregations each field has these figures instead of whole totals, as months:sum. With several topics the name has {topic}. Each pass writes the whole documents of the series that it touches, so this suits few series"`
	CountField string        `env:"ROLLUP_COUNT_FIELD,default=count" doc:"column with the number of measurements of a window. A field of measurements with this name has no totals"`
}

// Memory holds the memory limits of the process.
type Memory struct {
	Limit     Size  `env:"MEMORY_LIMIT" min:"32MiB" max:"16TiB" shown:"75 % of the cgroup's or the machine's memory, and at least 64 MiB less than that" doc:"memory of the process; a container's limit must be at least 64 MiB more. Buckets, what is known to be stored, letters, fetched records and writes under way get 60 % of it together, Go's garbage collector keeps the whole below it"`
	SeriesMax int64 `env:"SERIES_MAX,default=0" min:"0" max:"1000000000" unit:"series" doc:"warn and count above this many in memory; 0: off"`
}

// DLQ holds what happens to records that cannot be stored.
type DLQ struct {
	Topic       string        `env:"DLQ_TOPIC,default={topic}.dlq" empty:"a bad record stops its partition instead" doc:"dead-letter topic, {topic} standing for the record's topic"`
	Create      bool          `env:"DLQ_CREATE,default=true" doc:"create missing dead-letter topics"`
	Partitions  int           `env:"DLQ_PARTITIONS,default=1" min:"1" max:"10000" unit:"partition" doc:"of a created dead-letter topic"`
	Replication int           `env:"DLQ_REPLICATION" min:"1" max:"100" unit:"replica" shown:"the broker's" doc:"of a created dead-letter topic"`
	Retention   time.Duration `env:"DLQ_RETENTION,default=720h" min:"0s" max:"876000h" doc:"how long a created dead-letter topic keeps letters after they were written; with 0s it keeps them until they are deleted"`
}

// topicFor returns the name of the dead-letter topic of a topic.
func (d DLQ) topicFor(topic string) string {
	return strings.ReplaceAll(d.Topic, topicPlaceholder, topic)
}

// Service holds the settings of the process: pages, logs, start and shutdown.
type Service struct {
	ConfigFile      string        `env:"CONFIG_FILE" doc:"YAML file with settings, by the names that stand here: NAME: value. The environment wins. Under topics: there may be parts by topic, or by a pattern as in KAFKA_TOPICS, with settings that differ for it: EVENT_… but EVENT_MAX_BYTES, BUCKET_…, DLQ_TOPIC, and MONGODB_COLLECTION, _TIME_FIELD, _META_FIELD, _GRANULARITY, _BUCKET_MAX_SPAN, _BUCKET_ROUNDING, _EXPIRE_AFTER"`
	HTTPAddr        string        `env:"HTTP_ADDR,default=127.0.0.1:9464" empty:"off" doc:"address of metrics, health and status page. They show topic names, positions, causes of failures and the settings (secrets masked), without a login: the default answers this machine only. In a container, and for a Prometheus elsewhere, set :9464 and let the network decide who reaches it"`
	PprofAddr       string        `env:"PPROF_ADDR" shown:"off" doc:"address of Go's profiles"`
	LogLevel        string        `env:"LOG_LEVEL,default=info" oneof:"debug,info,warn,error" doc:"least severe lines that are written"`
	LogFormat       string        `env:"LOG_FORMAT" oneof:"text,json" shown:"text on a terminal, else json; of commands other than run always text" doc:"form of the lines"`
	LogProgress     time.Duration `env:"LOG_PROGRESS,default=1m" min:"1s" max:"24h" doc:"time between two lines that say how far the consumer is"`
	StartTimeout    time.Duration `env:"START_TIMEOUT" min:"0s" max:"24h" shown:"for ever" doc:"how long run waits at its start for Kafka and MongoDB to answer; 0s: for ever. Wrong passwords, rights and names end it at once all the same. The other commands do not wait"`
	ShutdownTimeout time.Duration `env:"SHUTDOWN_TIMEOUT,default=25s" min:"1s" max:"1h" doc:"from the signal to the exit; more than MONGODB_WRITE_TIMEOUT. Kubernetes' grace should be longer"`
}

// Serve holds how waterwheel serve answers, and what a query may cost.
type Serve struct {
	Addr       string        `env:"SERVE_ADDR,default=127.0.0.1:9465" doc:"address of waterwheel serve, which shows all measurements to whoever reaches it: the default answers this machine only. Elsewhere give SERVE_TOKEN, and certificate and key"`
	Token      Secret        `env:"SERVE_TOKEN" doc:"requests must have it, as Authorization: Bearer TOKEN. Not set: everybody is answered"`
	CertFile   string        `env:"SERVE_TLS_CERT_FILE" doc:"PEM file of the server's certificate; with it and the key connections are encrypted. Read again when it changes"`
	KeyFile    string        `env:"SERVE_TLS_KEY_FILE" doc:"PEM file of the certificate's key"`
	MaxRows    int64         `env:"SERVE_MAX_ROWS,default=100000" min:"1" max:"1000000000" unit:"row" doc:"most in one answer"`
	MaxTime    time.Duration `env:"SERVE_MAX_TIME,default=30s" min:"100ms" max:"1h" doc:"longest time that one answer takes"`
	MaxQueries int           `env:"SERVE_MAX_QUERIES,default=8" min:"1" max:"10000" unit:"query" doc:"most that are answered at a time; others are told to ask again"`
}
