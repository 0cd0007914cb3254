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
	Kafka    Kafka     `title:"Kafka"`
	Security Security  `title:"Security of Kafka connections"`
	Event    Event     `title:"Events"`
	Registry Registry  `title:"Schema registry"`
	MongoDB  MongoDB   `title:"MongoDB"`
	Bucket   Bucketing `title:"Buckets"`
	Flush    Flushing  `title:"Flushes and commits"`
	Rollup   Rollup    `title:"Rollups"`
	Memory   Memory    `title:"Memory"`
	DLQ      DLQ       `title:"Dead letters"`
	Service  Service   `title:"Service"`
	Serve    Serve     `title:"Reading over HTTP"`

	topics []topicConfig // the settings of single topics, from CONFIG_FILE
	hidden []string      // the settings of single topics that the environment overrides
	unread []string      // the topics and patterns of CONFIG_FILE that no entry of KAFKA_TOPICS can match
}

// Kafka names the topics to read, and the member and the group that read them.
type Kafka struct {
	Brokers           []string      `env:"KAFKA_BROKERS,required" doc:"bootstrap addresses, host:port, comma-separated"`
	Topics            []string      `env:"KAFKA_TOPICS,required" doc:"topics to read, comma-separated. An entry that begins with ^ is a regular expression (RE2) for the beginning of topic names, such as ^sensors\\.; end it with $ to match whole names. All matching topics are read. Matching topics that are created later are read from their log start. The dead-letter topics of these settings, and names that begin with __, never match"`
	GroupID           string        `env:"KAFKA_GROUP_ID,default=waterwheel" doc:"consumer group"`
	Start             Start         `env:"KAFKA_START,default=earliest" doc:"start position of a group that has no commit for a topic: earliest, latest, an RFC 3339 time, or a date. A date means its first moment in UTC. Partitions that are added later, and topics that are created again, begin at the log start"`
	OutOfRange        string        `env:"KAFKA_OUT_OF_RANGE,default=stop" oneof:"stop,earliest,latest" doc:"reaction to a committed offset beyond the log end: stop, earliest or latest. stop stops the partition, with an alarm. If the committed offset is before the log start, the partition always goes on at the log start. The gap is counted as lost by retention"`
	SkipCorrupt       Places        `env:"KAFKA_SKIP_CORRUPT" doc:"record batches to skip because they cannot be read, each as topic/partition/offset, comma-separated. The message of the stopped partition names this place. Each skipped batch becomes one dead letter with the reason unreadable and the batch's bytes. waterwheel cannot read damaged batches, batches that Java's client refuses, and batches whose record offsets do not ascend. It also cannot read batches that decompress to more than 128 MiB, have more than 4,194,304 records, or need a compression window of more than 8 MiB (zstd's ultra levels, one snappy block)"`
	Isolation         string        `env:"KAFKA_ISOLATION,default=read_committed" oneof:"read_committed,read_uncommitted" doc:"isolation level of reads. read_committed does not read records of open and aborted transactions; read_uncommitted reads them"`
	SessionTimeout    time.Duration `env:"KAFKA_SESSION_TIMEOUT,default=10s" min:"1s" max:"30m" doc:"time without a heartbeat after which Kafka removes a member from the group"`
	HeartbeatInterval time.Duration `env:"KAFKA_HEARTBEAT_INTERVAL,default=1s" min:"50ms" max:"10m" doc:"time between two heartbeats; at most a third of the session timeout"`
	RebalanceTimeout  time.Duration `env:"KAFKA_REBALANCE_TIMEOUT,default=60s" min:"1s" max:"1h" doc:"longest time that a rebalance waits for a member; half of it must be more than MONGODB_WRITE_TIMEOUT"`
	Lease             time.Duration `env:"KAFKA_LEASE,default=4s" min:"150ms" max:"10m" doc:"time for which one acknowledged commit permits writes; at least 3 × COMMIT_INTERVAL. After a crash, the next owner waits for Kafka's session timeout, and then for this time + 2 × MONGODB_WRITE_TIMEOUT"`
	InstanceID        string        `env:"KAFKA_INSTANCE_ID" doc:"instance ID for static membership, different for each consumer. A consumer that restarts within the session timeout keeps its partitions"`
	FetchBytes        Size          `env:"KAFKA_FETCH_BYTES,default=2MiB" min:"1KiB" max:"128MiB" doc:"largest size of the data that one request fetches for one partition"`
	FetchWait         time.Duration `env:"KAFKA_FETCH_WAIT,default=500ms" min:"1ms" max:"1m" doc:"longest time that the broker waits for new records"`
}

// Security holds how connections to Kafka are protected.
type Security struct {
	Protocol      string `env:"KAFKA_SECURITY,default=plaintext" oneof:"plaintext,tls,sasl_plaintext,sasl_tls" also:"ssl=tls,sasl_ssl=sasl_tls" doc:"encryption and authentication; SSL and SASL_SSL, as Java's client calls them, mean tls and sasl_tls"`
	SASLMechanism string `env:"KAFKA_SASL_MECHANISM" oneof:"PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER" hint:". AWS_MSK_IAM and GSSAPI are not supported: at Amazon MSK use SCRAM-SHA-512, or OAUTHBEARER with KAFKA_OAUTH_TOKEN_FILE (docs/deploy.md)" doc:"SASL mechanism; needed with sasl_plaintext and sasl_tls"`
	SASLUsername  string `env:"KAFKA_SASL_USERNAME" doc:"user name for SASL; not with OAUTHBEARER"`
	SASLPassword  Secret `env:"KAFKA_SASL_PASSWORD" doc:"password of the user in KAFKA_SASL_USERNAME"`

	OAuthTokenURL     string   `env:"KAFKA_OAUTH_TOKEN_URL" doc:"URL of the token endpoint of the OAuth server (grant type client_credentials), with OAUTHBEARER. A new token is requested when a fifth of the token's time is left, or half a minute if that is earlier"`
	OAuthClientID     string   `env:"KAFKA_OAUTH_CLIENT_ID" doc:"client ID for the endpoint of KAFKA_OAUTH_TOKEN_URL"`
	OAuthClientSecret Secret   `env:"KAFKA_OAUTH_CLIENT_SECRET" doc:"client secret for the endpoint of KAFKA_OAUTH_TOKEN_URL"`
	OAuthScope        []string `env:"KAFKA_OAUTH_SCOPE" doc:"scopes of the token, comma-separated"`
	OAuthParameters   []string `env:"KAFKA_OAUTH_PARAMETERS" doc:"further parameters that the endpoint of KAFKA_OAUTH_TOKEN_URL needs, each as name=value, comma-separated, such as audience=kafka"`
	OAuthCAFile       string   `env:"KAFKA_OAUTH_CA_FILE" doc:"PEM file of the certificate authorities to trust for the endpoint of KAFKA_OAUTH_TOKEN_URL, instead of the system's"`
	OAuthTokenFile    string   `env:"KAFKA_OAUTH_TOKEN_FILE" doc:"file with a token, instead of KAFKA_OAUTH_TOKEN_URL. Another program keeps the token current. The file is read for each login"`
	OAuthExtensions   []string `env:"KAFKA_OAUTH_EXTENSIONS" doc:"SASL extensions that are sent to the broker with the token, each as name=value, comma-separated, such as logicalCluster=lkc-1,identityPoolId=pool-1 at Confluent Cloud"`

	TLSCAFile     string `env:"KAFKA_TLS_CA_FILE" doc:"PEM file of the certificate authorities to trust instead of the system's. The file is read again when it changes, and so are KAFKA_TLS_CERT_FILE and KAFKA_TLS_KEY_FILE"`
	TLSCertFile   string `env:"KAFKA_TLS_CERT_FILE" doc:"PEM file of the client's certificate"`
	TLSKeyFile    string `env:"KAFKA_TLS_KEY_FILE" doc:"PEM file of the client's key"`
	TLSServerName string `env:"KAFKA_TLS_SERVER_NAME" doc:"name that the brokers' certificates must have, if it differs from the brokers' address"`
	TLSInsecure   bool   `env:"KAFKA_TLS_INSECURE,default=false" doc:"switch to accept any certificate. Connections are then encrypted, but the identity of the brokers is not known"`
}

// Event holds how records become measurements.
type Event struct {
	Format      string            `env:"EVENT_FORMAT,default=json" oneof:"json,extjson,bson,influx,otlp,otlp_json,avro,protobuf" doc:"encoding of a record's value: json, extjson, bson, influx, otlp, otlp_json, avro or protobuf. extjson is relaxed or canonical Extended JSON. influx is lines of InfluxDB's line protocol, as Telegraf's Kafka output writes by default. With influx, EVENT_TIME_FIELD, EVENT_META_FIELDS and EVENT_FIELDS default to timestamp, name,tags and fields. otlp and otlp_json are requests of OpenTelemetry's protocol with metrics, in protobuf or JSON. The collector's Kafka exporter writes them. With them, EVENT_META_FIELDS defaults to all fields that identify a stream. avro is one record in Avro's binary encoding, written by the schema in EVENT_SCHEMA or by a schema of SCHEMA_REGISTRY_URL. protobuf is one message. The message is EVENT_PROTOBUF_MESSAGE of EVENT_PROTOBUF_FILE, or the record names it in a schema of SCHEMA_REGISTRY_URL. A record holds one object, an array of objects, or several of either one after another (NDJSON). In bson it holds no arrays. In influx it holds lines, and in otlp and otlp_json data points. Up to 100 bad elements become dead letters of their own. If more are bad, the record becomes one dead letter and nothing of it is stored"`
	Schema      string            `env:"EVENT_SCHEMA" doc:"Avro schema that all events are written by, as JSON, with EVENT_FORMAT=avro. EVENT_SCHEMA_FILE is the path of a file with the schema, such as reading.avsc. Not set: each record names its schema, and SCHEMA_REGISTRY_URL has the schema"`
	Descriptors Content           `env:"EVENT_PROTOBUF_FILE" doc:"path of the file with the set of descriptors of all events, with EVENT_FORMAT=protobuf. protoc --include_imports --descriptor_set_out=FILE or buf build -o FILE writes it. The file is read once, at start. The file is binary, so a setting cannot hold its content. Not set: each record names its schema, and SCHEMA_REGISTRY_URL has the schema"`
	Message     string            `env:"EVENT_PROTOBUF_MESSAGE" doc:"full name of the message type of the events, such as plant.air.Reading, with EVENT_FORMAT=protobuf. Without EVENT_PROTOBUF_FILE the setting is optional, because each record names its message. If the setting is given nevertheless, records with other messages become dead letters"`
	Decimals    string            `env:"EVENT_DECIMALS,default=decimal128" oneof:"decimal128,double" doc:"type of the stored decimals of Avro and of Confluent's Protobuf. decimal128 is exact, up to 34 digits; a decimal with more digits becomes a dead letter. double is the nearest double, to calculate with"`
	Compression string            `env:"EVENT_COMPRESSION,default=none" oneof:"none,gzip,zlib,zstd,auto" doc:"compression of each value by the producer: none, gzip, zlib, zstd or auto. It is not Kafka's compression of batches. auto means gzip, zlib or zstd if the first bytes of a value show it, else none. EVENT_MAX_BYTES limits a value before and after decompression. Keys are not compressed"`
	Framing     string            `env:"EVENT_FRAMING,default=none" oneof:"none,confluent,auto" doc:"frame before the event in a record's value: none, confluent or auto. confluent is a zero byte and the four bytes of a schema's id, as Confluent's JSON Schema serializer writes; not with bson. auto means confluent if the value begins with a zero byte, else none. With confluent and auto, the frame of a key that has one is removed too. With avro without EVENT_SCHEMA, and with protobuf without EVENT_PROTOBUF_FILE, the frame is confluent. In these two cases the frame, or the header __value_schema_id, names the schema of a record. The same holds for a key that has a schema"`
	Parse       []string          `env:"EVENT_PARSE" doc:"dotted paths to texts that hold JSON, or JSON in base64, comma-separated. Each text is replaced by its content. A path may lead to a list that EVENT_LIST splits, or into the elements of this list"`
	List        []string          `env:"EVENT_LIST" doc:"dotted paths to lists of objects, comma-separated. Each object is an event of its own. It also gets all fields outside the lists, except fields that it has itself. Lists inside these lists are not split"`
	Skip        []string          `env:"EVENT_SKIP" doc:"conditions for events to skip, comma-separated: path (the event has a value there), !path (it has no value there), path=value, path!=value. An event that meets a condition is skipped and counted; it does not become a dead letter. Null is no value"`
	FieldName   string            `env:"EVENT_FIELD_NAME" doc:"dotted path to the name of the event's value, for events such as {\"name\": \"temp\", \"value\": 21}. This value becomes the field temp"`
	FieldValue  string            `env:"EVENT_FIELD_VALUE" doc:"dotted path to the value that EVENT_FIELD_NAME names. Several paths have | between them, and the first path that exists counts"`
	Rename      []string          `env:"EVENT_RENAME" doc:"new names of fields, comma-separated, each as path=name. All settings above use the old name. The settings of time, meta and fields, and EVENT_DROP, use the new name"`
	Root        string            `env:"EVENT_ROOT" doc:"dotted path to the object that is the event, in an envelope, such as payload or payload.after. The rest of the envelope is not stored. The other paths are relative to this object. Paths that begin with a slash begin at the envelope's top. A record whose root is null (a deleted row) is skipped like a tombstone. Not set: the whole object is the event"`
	TimeField   string            `env:"EVENT_TIME_FIELD,default=time" empty:"the Kafka record's timestamp" doc:"dotted path to the measurement's time in the event. Several paths have | between them, such as ts|timestamp; the first path that exists and is not null counts. header:name is a header of the record"`
	TimeFormat  string            `env:"EVENT_TIME_FORMAT,default=auto" doc:"format of the time: auto, rfc3339, unix, unix_ms, unix_us, unix_ns, a Go layout such as 2006-01-02 15:04:05, or a strftime pattern such as %Y-%m-%d %H:%M:%S. A layout or pattern reads a text without a zone as UTC, or in EVENT_TIME_ZONE. With digits alone, such as 20060102, it reads numbers too. auto reads an RFC 3339 string, an Extended JSON date, or a number. auto also reads forms of ISO 8601. They may have an offset such as +0100 or +01, a blank before the offset, or a comma before the fraction. They may lack seconds, or hyphens and colons as in 20260301T120000Z. auto takes a number below 1e11 as seconds, below 1e14 as milliseconds, below 1e17 as microseconds, else as nanoseconds. It reads a number sent as a string if the whole part has 10, 13, 16 or 19 digits, without sign and exponent. The number of digits gives the unit. unix, unix_ms, unix_us and unix_ns read a number, also as a string"`
	TimeZone    string            `env:"EVENT_TIME_ZONE" doc:"time zone of times that have no zone, such as Europe/Berlin. One hour comes twice in autumn. A time in this hour is taken as the moment nearer to the record's timestamp. Not set: EVENT_TIME_FORMAT=auto refuses times without a zone, and a layout reads them as UTC"`
	TimeExact   string            `env:"EVENT_TIME_EXACT" doc:"name of a field that gets the time in nanoseconds since 1970, as a 64-bit integer, because a date of MongoDB has milliseconds"`
	TimeMin     measurement.Bound `env:"EVENT_TIME_MIN,default=1990-01-01T00:00:00Z" doc:"earliest time accepted: an RFC 3339 time, a date, or a distance from the record's Kafka timestamp such as +24h or -30d"`
	TimeMax     measurement.Bound `env:"EVENT_TIME_MAX,default=+24h" doc:"latest time accepted, written as EVENT_TIME_MIN. Only times of the years 0 to 9999 are accepted, whatever both settings say. A distance does not apply to a record without a timestamp (-1)"`
	MetaField   string            `env:"EVENT_META_FIELD,default=meta" empty:"as EVENT_META_FROM says" doc:"dotted path to the series' identity in the event. key: is the record's key, key:path is a member of a key that is an object, and header:name is a header of the record"`
	MetaFields  []string          `env:"EVENT_META_FIELDS" doc:"paths that together make meta an object, comma-separated, instead of EVENT_META_FIELD. Each is name=path, or only a path, whose last name is then used. Paths may also lead to the record's key and headers. Parts that an event does not have are absent, but at least one must be there"`
	Fields      string            `env:"EVENT_FIELDS" doc:"dotted path to the object whose members become the measurement's fields, for example fields in Telegraf's events. Besides time and meta, nothing else is stored. Not set: all fields except time and meta"`
	Drop        []string          `env:"EVENT_DROP" doc:"dotted paths of fields that are left out, comma-separated. The paths may have names that begin with $, such as $schema"`
	MetaFrom    string            `env:"EVENT_META_FROM,default=value" oneof:"value,key,none" doc:"source of a series' identity: value (EVENT_META_FIELD), key (the record's key) or none. The key is a text or a JSON object. After a schema registry's frame, the key may be any JSON value. With avro and protobuf from a registry, the key may be any value of its own schema"`
	Numbers     string            `env:"EVENT_NUMBERS,default=json" oneof:"json,text" doc:"notation of numbers in fields: json (JSON numbers only) or text (numbers in strings, too). With text, a string is stored as a number if it is a JSON number, NaN or Infinity. A string with a decimal comma becomes a dead letter, and all other strings stay strings"`
	Nulls       string            `env:"EVENT_NULLS,default=keep" oneof:"keep,drop" doc:"treatment of fields that are null: keep (null is stored) or drop (they are left out, also inside of objects). Nulls in arrays and in meta stay"`
	DottedNames string            `env:"EVENT_DOTTED_NAMES,default=nest" oneof:"nest,reject" doc:"treatment of field names with dots: nest (a.b becomes {a: {b}}) or reject"`
	MaxBytes    Size              `env:"EVENT_MAX_BYTES,default=1MiB" min:"1B" max:"64MiB" doc:"largest size of a record; with EVENT_COMPRESSION also the largest size after decompression"`
}

// Registry holds where the schemas of records are.
type Registry struct {
	URLs        []string      `env:"SCHEMA_REGISTRY_URL" doc:"addresses of the servers of a schema registry, http:// or https://, comma-separated. If a server does not answer, the next one is asked. The registry is used with EVENT_FORMAT=avro if EVENT_SCHEMA is not set. It is used with EVENT_FORMAT=protobuf if EVENT_PROTOBUF_FILE is not set"`
	Username    string        `env:"SCHEMA_REGISTRY_USERNAME" doc:"user name for the registry"`
	Password    Secret        `env:"SCHEMA_REGISTRY_PASSWORD" doc:"password of the user in SCHEMA_REGISTRY_USERNAME"`
	Token       Secret        `env:"SCHEMA_REGISTRY_TOKEN" doc:"bearer token for the registry, instead of user and password"`
	Timeout     time.Duration `env:"SCHEMA_REGISTRY_TIMEOUT,default=5s" min:"100ms" max:"1m" doc:"longest time to get one schema from the registry, with all requests for it"`
	UnknownWait time.Duration `env:"SCHEMA_UNKNOWN_WAIT,default=30s" min:"0s" max:"24h" doc:"time during which a schema that the registry does not have is requested again. After this time the record becomes a dead letter with the reason unknown_schema. If the registry has given no schema of the topic before, the partition stops instead"`
	TLSCAFile   string        `env:"SCHEMA_REGISTRY_TLS_CA_FILE" doc:"PEM file of the certificate authorities to trust instead of the system's"`
	TLSCertFile string        `env:"SCHEMA_REGISTRY_TLS_CERT_FILE" doc:"PEM file of the client's certificate"`
	TLSKeyFile  string        `env:"SCHEMA_REGISTRY_TLS_KEY_FILE" doc:"PEM file of the client's key"`
	TLSInsecure bool          `env:"SCHEMA_REGISTRY_TLS_INSECURE,default=false" doc:"switch to accept any certificate. Connections are then encrypted, but the identity of the registry is not known"`
}

// MongoDB holds where buckets are stored, and how the collection is defined.
type MongoDB struct {
	URI            URI           `env:"MONGODB_URI,required" doc:"connection string, mongodb:// or mongodb+srv://"`
	Database       string        `env:"MONGODB_DATABASE" shown:"the URI's, else waterwheel" doc:"name of the database"`
	Collection     string        `env:"MONGODB_COLLECTION,default={topic}" doc:"name of the time series; {topic} stands for the topic. Buckets go to <name>.buckets, claims to <name>.partitions, options to <name>.options"`
	TimeField      string        `env:"MONGODB_TIME_FIELD,default=time" doc:"name of the time in the stored measurement"`
	MetaField      string        `env:"MONGODB_META_FIELD,default=meta" doc:"name of the series' identity in the stored measurement"`
	MetaIndexes    []string      `env:"META_INDEXES" doc:"paths within meta that queries filter on, comma-separated, such as meta.sensor,meta.site (meta is the name in MONGODB_META_FIELD). init and run create an index on each path and the time, newest first, if the index is missing. Without such an index, a query for a part of meta reads the buckets of all series. A path that you remove from this setting keeps its index"`
	Granularity    string        `env:"MONGODB_GRANULARITY" oneof:"seconds,minutes,hours" shown:"seconds" doc:"bucket span and rounding: seconds (1 h, 1 min), minutes (24 h, 1 h), hours (30 d, 24 h)"`
	BucketMaxSpan  time.Duration `env:"MONGODB_BUCKET_MAX_SPAN" min:"1s" max:"8760h" doc:"time that a bucket spans, in whole seconds, instead of MONGODB_GRANULARITY"`
	BucketRounding time.Duration `env:"MONGODB_BUCKET_ROUNDING" min:"1s" max:"8760h" doc:"rounding of a bucket's start, in whole seconds; must equal MONGODB_BUCKET_MAX_SPAN"`
	ExpireAfter    time.Duration `env:"MONGODB_EXPIRE_AFTER" min:"1s" shown:"never" doc:"age beyond which measurements are deleted, in whole seconds"`
	View           string        `env:"MONGODB_VIEW,default=auto" oneof:"auto,internal,portable,none" doc:"kind of the view <name>, which shows measurements and is made at the start: internal, portable, auto or none. internal uses MongoDB's own stage $_internalUnpackBucket, which MongoDB does not document. With internal, filters on time and meta read only the buckets they need. portable uses documented stages only, and every filter reads all buckets. auto is the first of both that this MongoDB runs; a view that works is kept. With none, a view that was made before is dropped"`
	WriteTimeout   time.Duration `env:"MONGODB_WRITE_TIMEOUT,default=5s" min:"100ms" max:"10m" doc:"longest time for one bulk write, from sending to the answer"`
}

// seriesFor returns the name of the time series of a topic.
func (m MongoDB) seriesFor(topic string) string {
	return strings.ReplaceAll(m.Collection, topicPlaceholder, topic)
}

// Bucketing holds when a bucket is full.
type Bucketing struct {
	MaxCount   int32 `env:"BUCKET_MAX_COUNT,default=1000" min:"1" max:"1000000" unit:"measurement" doc:"largest number of measurements in a bucket"`
	MaxBytes   Size  `env:"BUCKET_MAX_BYTES,default=125KiB" min:"1B" max:"12MiB" doc:"largest size of a bucket"`
	MinCount   int32 `env:"BUCKET_MIN_COUNT,default=10" min:"1" max:"1000000" unit:"measurement" doc:"number of measurements below which a bucket may be larger than BUCKET_MAX_BYTES"`
	CacheBytes Size  `env:"BUCKET_CACHE_BYTES,default=0B" min:"0B" max:"1TiB" doc:"size of the cache for the buckets of one partition. If a partition has more buckets than fit into the cache, its buckets become smaller. Each partition has this limit of its own, so set the share of one partition in the database's cache. 0 turns this off"`
	Reopen     bool  `env:"BUCKET_REOPEN,default=true" doc:"switch to look up stored buckets before new buckets are opened"`
	DeltaMax   int32 `env:"BUCKET_DELTA_MAX,default=16" min:"0" max:"1000000" unit:"measurement" doc:"largest number of measurements that one write adds to a stored bucket; more go into a new bucket. 0 means no limit"`
}

// Flushing holds when measurements are written and offsets committed.
type Flushing struct {
	Interval            time.Duration `env:"FLUSH_INTERVAL,default=5s" min:"1ms" max:"1h" doc:"longest time that a measurement waits to be written"`
	Bytes               Size          `env:"FLUSH_BYTES,default=64MiB" min:"1KiB" max:"16GiB" doc:"size of the waiting measurements at which a partition is written immediately"`
	Count               int           `env:"FLUSH_COUNT,default=500000" min:"1" max:"100000000" unit:"measurement" doc:"number of waiting measurements at which a partition is written immediately"`
	CommitInterval      time.Duration `env:"COMMIT_INTERVAL,default=1s" min:"10ms" max:"1m" doc:"time between two commits of offsets"`
	Segments            string        `env:"SEGMENTS,default=auto" oneof:"auto,on,off" also:"true=on,false=off,yes=on,no=off" doc:"use of segments: auto, on or off. Segments are documents with measurements of many series. Measurements of series that send rarely are first written together into segments, and put into buckets every COMPACT_INTERVAL. This is far less work for MongoDB, and measurements are visible just as soon. auto uses segments in a new collection, or in a collection that has segments already. For auto, this MongoDB must have a view that shows segments (not with MONGODB_VIEW=none). on always uses segments. Without such a view, only waterwheel query and the package reader show measurements that are not in buckets yet. off writes everything into buckets immediately. With off, existing segments of the collection are still shown and put into buckets"`
	CompactInterval     time.Duration `env:"COMPACT_INTERVAL,default=10m" min:"1s" max:"24h" doc:"time that measurements stay in segments before they are put into buckets. A longer time makes fuller buckets, and more segments that a query looks through"`
	CompactDelay        time.Duration `env:"COMPACT_VISIBILITY_DELAY,default=4m" min:"2s" max:"1h" doc:"time between the compaction of segments and the moment when queries see the buckets instead. It should be longer than another consumer needs to take over from a crashed consumer. Otherwise queries may show some measurements twice until another consumer takes over"`
	SegmentRetention    time.Duration `env:"SEGMENT_RETENTION,default=10m" min:"1s" max:"24h" doc:"time that segments are kept after they have ended; it should be longer than queries take"`
	SegmentRows         int32         `env:"SEGMENT_MEASUREMENTS,default=250" min:"10" max:"1000000" unit:"measurement" doc:"largest number of measurements in a segment. The series of a segment are neighbours by the values of META_INDEXES, else by their meta. With fewer measurements, a query of one series reads less data that is not in buckets yet. But MongoDB then needs more work to write and to compact. A flush of fewer than 75 times this number is divided into smaller segments, down to 32 measurements"`
	SegmentMeasurements int           `env:"SEGMENT_MEASUREMENTS_MAX,default=500000" min:"1000" doc:"number of measurements in the segments of a partition at which compaction starts immediately, without waiting for COMPACT_INTERVAL. From twice this number on, compaction comes before new writes"`
}

// Rollup holds which totals of measurements are stored, and for which windows.
type Rollup struct {
	Levels     RollupLevels  `env:"ROLLUP_LEVELS" shown:"off" doc:"levels of totals of the numeric fields of each series: 1m (by minute), 1h (by hour) and 1d (by day, which needs 1h), comma-separated. A colon after a level gives the time that its rows are kept, such as 1m:2160h,1h:17520h,1d. Without it the rows are kept for ever. Level 1h of measurements is the time series measurements_1h. Consumers maintain existing levels that are not named here, too: only waterwheel rollup drop ends a level"`
	Fields     []string      `env:"ROLLUP_FIELDS" shown:"all" doc:"fields that have totals, comma-separated, such as celsius,wind. A name selects a field and everything below it, and * stands for any text"`
	Interval   time.Duration `env:"ROLLUP_INTERVAL,default=1h" min:"1s" max:"24h" doc:"time between two passes that bring the totals of a partition up to date. A longer time costs less, because the cost of a pass depends on series and not on measurements"`
	Share      Share         `env:"ROLLUP_SHARE,default=0.1" doc:"largest share of its time that a process works on totals, 0.01 to 1. The process pauses in between, unless the totals are two intervals late"`
	Nested     RollupNested  `env:"ROLLUP_NESTED" shown:"off" doc:"collection with one document for each series and month, in which days, hours and minutes are nested. A colon and aggregations may follow the name, such as months:sum. Then each field has these figures instead of whole totals. With several topics the name must have {topic}. Each pass writes the whole documents of the series that it touches, so this suits few series"`
	CountField string        `env:"ROLLUP_COUNT_FIELD,default=count" doc:"name of the column with the number of measurements of a window. A field of measurements with this name has no totals"`
}

// Memory holds the memory limits of the process.
type Memory struct {
	Limit     Size  `env:"MEMORY_LIMIT" min:"32MiB" max:"16TiB" shown:"75 % of the cgroup's or the machine's memory, and at least 64 MiB less than that" doc:"memory limit of the process; a container's limit must be at least 64 MiB more. Buckets, stored positions, dead letters, fetched records and writes under way get 60 % of it together. Go's garbage collector keeps the whole process below it"`
	SeriesMax int64 `env:"SERIES_MAX,default=0" min:"0" max:"1000000000" unit:"series" doc:"number of series in memory above which waterwheel logs a warning and counts it. 0 turns this off"`
}

// DLQ holds what happens to records that cannot be stored.
type DLQ struct {
	Topic       string        `env:"DLQ_TOPIC,default={topic}.dlq" empty:"a bad record stops its partition instead" doc:"name of the dead-letter topic; {topic} stands for the record's topic"`
	Create      bool          `env:"DLQ_CREATE,default=true" doc:"switch to create missing dead-letter topics"`
	Partitions  int           `env:"DLQ_PARTITIONS,default=1" min:"1" max:"10000" unit:"partition" doc:"number of partitions of a dead-letter topic that waterwheel creates"`
	Replication int           `env:"DLQ_REPLICATION" min:"1" max:"100" unit:"replica" shown:"the broker's" doc:"replication factor of a dead-letter topic that waterwheel creates"`
	Retention   time.Duration `env:"DLQ_RETENTION,default=720h" min:"0s" max:"876000h" doc:"retention time of letters in a dead-letter topic that waterwheel creates, counted from when they were written. With 0s the topic keeps letters until they are deleted"`
}

// topicFor returns the name of the dead-letter topic of a topic.
func (d DLQ) topicFor(topic string) string {
	return strings.ReplaceAll(d.Topic, topicPlaceholder, topic)
}

// Service holds the settings of the process: pages, logs, start and shutdown.
type Service struct {
	ConfigFile      string        `env:"CONFIG_FILE" doc:"YAML file with settings under their names, as NAME: value. Environment variables take precedence. Under topics: the file may have parts for single topics, or for patterns as in KAFKA_TOPICS. Such a part has settings that differ for its topics: EVENT_… except EVENT_MAX_BYTES, BUCKET_…, DLQ_TOPIC, and MONGODB_COLLECTION, _TIME_FIELD, _META_FIELD, _GRANULARITY, _BUCKET_MAX_SPAN, _BUCKET_ROUNDING, _EXPIRE_AFTER"`
	HTTPAddr        string        `env:"HTTP_ADDR,default=127.0.0.1:9464" empty:"off" doc:"listen address of metrics, health and status page. They show topic names, positions, causes of failures and the settings (secrets masked), without a login. With the default, only this machine can connect. In a container, or for a Prometheus on another machine, set :9464 and restrict access in the network"`
	PprofAddr       string        `env:"PPROF_ADDR" shown:"off" doc:"listen address of Go's profiles"`
	LogLevel        string        `env:"LOG_LEVEL,default=info" oneof:"debug,info,warn,error" doc:"lowest severity of the log lines that are written"`
	LogFormat       string        `env:"LOG_FORMAT" oneof:"text,json" shown:"text on a terminal, else json; of commands other than run always text" doc:"format of the log lines"`
	LogProgress     time.Duration `env:"LOG_PROGRESS,default=1m" min:"1s" max:"24h" doc:"time between two log lines that show the consumer's progress"`
	StartTimeout    time.Duration `env:"START_TIMEOUT" min:"0s" max:"24h" shown:"for ever" doc:"longest time that run and serve wait at their start for Kafka and MongoDB to answer. 0s means that they wait for ever. Wrong passwords, rights and names end them immediately in any case. The other commands do not wait"`
	ShutdownTimeout time.Duration `env:"SHUTDOWN_TIMEOUT,default=25s" min:"1s" max:"1h" doc:"longest time from the stop signal to the exit; must be more than MONGODB_WRITE_TIMEOUT. In Kubernetes, set terminationGracePeriodSeconds higher"`
}

// Serve holds how waterwheel serve answers, and what a query may cost.
type Serve struct {
	Addr       string        `env:"SERVE_ADDR,default=127.0.0.1:9465" doc:"listen address of waterwheel serve, which shows all measurements to everyone who can connect. With the default, only this machine can connect. For any other address set SERVE_TOKEN, a certificate and a key"`
	Token      Secret        `env:"SERVE_TOKEN" doc:"token that requests must have, as Authorization: Bearer TOKEN. Not set: all requests are answered"`
	CertFile   string        `env:"SERVE_TLS_CERT_FILE" doc:"PEM file of the server's certificate. With the certificate and its key, connections are encrypted. The file is read again when it changes"`
	KeyFile    string        `env:"SERVE_TLS_KEY_FILE" doc:"PEM file of the certificate's key"`
	MaxRows    int64         `env:"SERVE_MAX_ROWS,default=100000" min:"1" max:"1000000000" unit:"row" doc:"largest number of rows in one answer"`
	MaxTime    time.Duration `env:"SERVE_MAX_TIME,default=30s" min:"100ms" max:"1h" doc:"longest time that one answer takes"`
	MaxQueries int           `env:"SERVE_MAX_QUERIES,default=8" min:"1" max:"10000" unit:"query" doc:"largest number of queries that are answered at a time. Eight times as many wait for three seconds. All others get the status 429, and their clients must ask again"`
}
