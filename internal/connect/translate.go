package connect

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"waterwheel/bucketer"
	"waterwheel/config"
	"waterwheel/dlq"
	"waterwheel/internal/claim"
	"waterwheel/internal/collection"
	"waterwheel/internal/kafka"
	"waterwheel/internal/kafka/group"
	"waterwheel/internal/kafka/recordbatch"
	"waterwheel/internal/measurement"
	"waterwheel/internal/mongodb"
	"waterwheel/internal/schemas"
	"waterwheel/internal/timeseries"
	"waterwheel/pipeline"
)

// budgetPercent is the percentage of MEMORY_LIMIT for the budget: catalogs, stored positions, letters, fetched records, and
// pending writes. The rest is for the process itself (some 20 MiB), for decompression and connections, and for garbage. With a
// smaller rest, Go spends most time on garbage collection. Measured with e2e/hostile: at 60 % the resident memory reaches
// MEMORY_LIMIT and some 20 MiB, most of which are the program's own pages.
const budgetPercent = 60

// keyBytes is how much longer than its value a record may be to be decompressed whole.
const keyBytes = 1 << 20

// storedShare divides the memory budget. One share is for the stored positions of one partition. If there are more, they are read
// in several windows.
const storedShare = 8

// Budget returns how much memory all partitions together may use.
func Budget(c config.Config) int64 { return int64(c.Memory.Limit) / 100 * budgetPercent }

// KafkaOptions returns the options of a Kafka client.
func KafkaOptions(c config.Config, log *slog.Logger) kafka.Options {
	o := kafka.Options{
		Brokers: c.Kafka.Brokers, Topics: c.Kafka.Topics, Security: security(c.Security), Logger: log,
		FetchBytes: int32(c.Kafka.FetchBytes), FetchWait: c.Kafka.FetchWait,
		Start:    kafka.Start{Latest: c.Kafka.Start.Policy == "latest"},
		Decoding: recordbatch.Options{RecordBytes: int(c.Event.MaxBytes) + keyBytes, PieceBytes: pipeline.PieceBytes(Budget(c)), SkipCorrupt: c.Kafka.SkipCorrupt},
	}
	if c.Kafka.Isolation == "read_committed" {
		o.Isolation = kafka.ReadCommitted
	}
	if c.Kafka.Start.Policy == "time" {
		o.Start.Time = c.Kafka.Start.Time
	}
	return o
}

// GroupOptions returns the options of the group membership.
func GroupOptions(c config.Config, log *slog.Logger) group.Options {
	return group.Options{
		GroupID: c.Kafka.GroupID, Topics: c.Kafka.Topics, InstanceID: c.Kafka.InstanceID, SessionTimeout: c.Kafka.SessionTimeout,
		HeartbeatInterval: c.Kafka.HeartbeatInterval, RebalanceTimeout: c.Kafka.RebalanceTimeout, Lease: c.Kafka.Lease,
		Shutdown: c.Service.ShutdownTimeout - ClosingReserve(c.Service.ShutdownTimeout), HandOver: WriteGrace(c), ErrorAfter: pipeline.ErrorAfter, Logger: log,
		Page: c.Service.PagePort(),
	}
}

func security(c config.Security) kafka.Security {
	var s kafka.Security
	if c.Protocol == "tls" || c.Protocol == "sasl_tls" {
		s.TLS = &kafka.TLS{
			CAFile: c.TLSCAFile, CertFile: c.TLSCertFile, KeyFile: c.TLSKeyFile, ServerName: c.TLSServerName,
			Insecure: c.TLSInsecure,
		}
	}
	if strings.HasPrefix(c.Protocol, "sasl_") {
		s.SASL = &kafka.SASL{Mechanism: c.SASLMechanism, Username: c.SASLUsername, Password: c.SASLPassword.Reveal()}
	}
	if c.SASLMechanism == config.OAuthBearer {
		s.SASL.OAuth = &kafka.OAuth{
			TokenURL: c.OAuthTokenURL, ClientID: c.OAuthClientID, ClientSecret: c.OAuthClientSecret.Reveal(), Scopes: c.OAuthScope,
			Parameters: config.Pairs(c.OAuthParameters), CAFile: c.OAuthCAFile, TokenFile: c.OAuthTokenFile, Extensions: config.Pairs(c.OAuthExtensions),
		}
	}
	return s
}

// DatabaseOptions returns the options of the connection to MongoDB.
func DatabaseOptions(c config.Config, log *slog.Logger) mongodb.Options {
	return mongodb.Options{URI: c.MongoDB.URI.Reveal(), Database: c.MongoDB.Database, WriteTimeout: c.MongoDB.WriteTimeout, Logger: log}
}

// SeriesSettings returns how time series are set up.
func SeriesSettings(c config.Config) collection.Settings {
	return collection.Settings{
		View: collection.ViewKind(c.MongoDB.View), Segments: collection.Segments(c.Flush.Segments), MetaPaths: c.MongoDB.MetaIndexes,
	}
}

// seriesOptions returns the definition of the time series.
func seriesOptions(c config.Config) timeseries.Options {
	o := timeseries.Options{
		TimeField: c.MongoDB.TimeField, MetaField: c.MongoDB.MetaField,
		Granularity:        timeseries.Granularity(c.MongoDB.Granularity),
		MaxSpanSeconds:     int32(c.MongoDB.BucketMaxSpan / time.Second),
		RoundingSeconds:    int32(c.MongoDB.BucketRounding / time.Second),
		ExpireAfterSeconds: int64(c.MongoDB.ExpireAfter / time.Second),
	}
	if c.Event.MetaFrom == string(measurement.MetaFromNone) {
		o.MetaField = ""
	}
	return o
}

// Bucketing returns the catalog's options for a time series.
func Bucketing(c config.Config, definition timeseries.Options, setsInTextOrder bool) bucketer.Options {
	return bucketer.Options{
		Collection: definition,
		Limits: timeseries.Limits{
			MaxCount: c.Bucket.MaxCount, MaxBytes: int32(c.Bucket.MaxBytes), MinCount: c.Bucket.MinCount,
			CacheBytes: int64(c.Bucket.CacheBytes),
		},
		DeltaMax: c.Bucket.DeltaMax, Reopen: c.Bucket.Reopen, SetsInTextOrder: setsInTextOrder,
	}
}

// Namespace returns the name of a topic's time series, prefixed with the name of the database.
func Namespace(c config.Config, topic string) string {
	return c.MongoDB.Database + "." + c.SeriesFor(topic)
}

// NewDecoder returns a decoder of events, and the definition of their time series.
func NewDecoder(c config.Config) (*measurement.Decoder, timeseries.Options, error) {
	return NewAskingDecoder(context.Background(), c, nil)
}

// Decoding returns the options of decoding events.
func Decoding(c config.Config, o timeseries.Options) measurement.Options {
	d := c.Event.Paths()
	d.Format, d.Framing = measurement.Format(c.Event.Format), measurement.Framing(c.Event.Framing)
	d.Schema, d.Decimals, d.Nulls = c.Event.Schema, measurement.Decimals(c.Event.Decimals), measurement.Nulls(c.Event.Nulls)
	d.Descriptors, d.Message = c.Event.Descriptors.Bytes, c.Event.Message
	d.Compression = measurement.Compression(c.Event.Compression)
	d.TimeFormat, d.TimeMin, d.TimeMax = c.Event.TimeFormat, c.Event.TimeMin, c.Event.TimeMax
	d.TimeZone, d.TimeExact, d.Numbers = c.Event.TimeZone, c.Event.TimeExact, measurement.Numbers(c.Event.Numbers)
	d.DottedNames, d.MaxBytes = measurement.DottedNames(c.Event.DottedNames), int(c.Event.MaxBytes)
	d.StoredTime, d.StoredMeta = o.TimeField, o.MetaField
	return d
}

// Portion returns how many bytes of records a worker takes at a time. The budget reserves memory for one piece of a fetch. Values
// that producers compressed become larger than their piece. So at most one piece of them is decompressed before the budget
// accounts for it.
func Portion(c config.Config) int {
	if c.Event.Compression != string(measurement.NoCompression) {
		return pipeline.PieceBytes(Budget(c))
	}
	return pipeline.DefaultPortion
}

// DeadLetterOptions returns the options of dead letters.
func DeadLetterOptions(c config.Config) dlq.Options {
	return dlq.Options{
		Sources: c.Kafka.Topics, TopicFor: c.DeadLettersFor, GroupID: c.Kafka.GroupID, Create: c.DLQ.Create,
		Partitions: c.DLQ.Partitions, Replication: c.DLQ.Replication, Retention: c.DLQ.Retention,
	}
}

// ClosingReserve returns the part of a shutdown's time for closing connections and pages, after the group was left. It is part of
// SHUTDOWN_TIMEOUT, because a supervisor kills a process that takes longer.
func ClosingReserve(shutdown time.Duration) time.Duration { return min(time.Second, shutdown/10) }

// WriteGrace returns how long after its sending a write may still be executed.
func WriteGrace(c config.Config) time.Duration { return claim.WriteGrace(c.MongoDB.WriteTimeout) }

// Schemas is a schema registry.
type Schemas = pipeline.Schemas

// registry implements the schema registry of workers.
type registry struct{ *schemas.Client }

// Schema implements pipeline.Schemas.
func (r registry) Schema(ctx context.Context, topic string, id measurement.SchemaID) (pipeline.SchemaAnswer, error) {
	a, err := r.Client.Schema(ctx, topic, id)
	return pipeline.SchemaAnswer(a), err
}

// Registry returns the schema registry of the settings, without asking it anything. Nil means that there is none. If reg is not
// nil, it registers the registry's metrics.
func Registry(c config.Config, reg prometheus.Registerer) (Schemas, error) {
	r := c.Registry
	if len(r.URLs) == 0 {
		return nil, nil
	}
	security := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: r.TLSInsecure}
	if r.TLSCAFile != "" {
		var err error
		if security.RootCAs, err = kafka.Authorities("SCHEMA_REGISTRY_TLS_CA_FILE", r.TLSCAFile); err != nil {
			return nil, err
		}
	}
	if r.TLSCertFile != "" { // read for each connection, because certificates are replaced
		security.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			own, err := tls.LoadX509KeyPair(r.TLSCertFile, r.TLSKeyFile)
			return &own, err
		}
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = security
	o := schemas.Options{
		URLs: r.URLs, Username: r.Username, Password: r.Password.Reveal(), Token: r.Token.Reveal(),
		Timeout: r.Timeout, Client: &http.Client{Transport: transport},
	}
	if reg != nil {
		o.Metrics = schemas.NewMetrics(reg)
	}
	return registry{schemas.New(o)}, nil
}

// Asking makes decoders fetch the schemas that records name from a registry. It is for commands, which may wait. After the first
// error of the registry, all further requests return that error, so that a command does not wait at each record.
func Asking(ctx context.Context, from Schemas, o *measurement.Options) {
	if from == nil {
		return
	}
	var failed error
	o.Ask = func(id measurement.SchemaID) (measurement.Schema, error) {
		if failed != nil {
			return measurement.Schema{}, failed
		}
		a, err := from.Schema(ctx, "", id)
		if err != nil {
			failed = fmt.Errorf("asking the schema registry: %w", err)
		}
		if a.Unknown {
			a.Schema = measurement.Schema{Reason: measurement.UnknownSchema, Detail: "the registry has no schema with this id"}
		}
		return a.Schema, failed
	}
}

// NewAskingDecoder is NewDecoder for commands. Its decoder fetches schemas from the registry.
func NewAskingDecoder(ctx context.Context, c config.Config, from Schemas) (*measurement.Decoder, timeseries.Options, error) {
	definition, err := seriesOptions(c).Normalize()
	if err != nil {
		return nil, definition, fmt.Errorf("checking the settings of the time series: %w", err)
	}
	o := Decoding(c, definition)
	Asking(ctx, from, &o)
	decoder, err := measurement.New(o)
	return decoder, definition, err
}

// TryRegistry requests a schema that no registry has. The answer shows that the server is a registry, and that this user may ask
// it.
func TryRegistry(ctx context.Context, from Schemas) error {
	_, err := from.Schema(ctx, "", measurement.SchemaID{})
	return err
}
