package connect

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"waterwheel/bucketer"
	"waterwheel/config"
	"waterwheel/dlq"
	"waterwheel/internal/collection"
	"waterwheel/internal/kafka"
	"waterwheel/internal/kafka/group"
	"waterwheel/internal/kafka/recordbatch"
	"waterwheel/internal/measurement"
	"waterwheel/internal/mongodb"
	"waterwheel/internal/timeseries"
	"waterwheel/pipeline"
)

// budgetPercent is the part of MEMORY_LIMIT that the budget has: catalogs, stored positions, letters, fetched records, writes
// under way. The rest is for what a process takes without any (some 20 MiB), for decompression and connections, and for
// garbage: with less of it Go collects more often than it works. Measured with e2e/hostile: at 60 % the resident memory goes
// up to MEMORY_LIMIT and some 20 MiB, most of which are the program's own pages.
const budgetPercent = 60

// keyBytes is how much longer a record may be than its value, and still be unfolded whole.
const keyBytes = 1 << 20

// storedShare divides the memory budget. One share is for the stored positions of one partition: more is read in several windows.
const storedShare = 8

// Budget is what all partitions together may use.
func Budget(c config.Config) int64 { return int64(c.Memory.Limit) / 100 * budgetPercent }

// KafkaOptions are the options of a client of Kafka.
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

// GroupOptions are the settings of the membership.
func GroupOptions(c config.Config, log *slog.Logger) group.Options {
	return group.Options{
		GroupID: c.Kafka.GroupID, Topics: c.Kafka.Topics, InstanceID: c.Kafka.InstanceID, SessionTimeout: c.Kafka.SessionTimeout,
		HeartbeatInterval: c.Kafka.HeartbeatInterval, RebalanceTimeout: c.Kafka.RebalanceTimeout, Lease: c.Kafka.Lease,
		Shutdown: c.Service.ShutdownTimeout - ClosingReserve(c.Service.ShutdownTimeout), HandOver: Grace(c), ErrorAfter: pipeline.ErrorAfter, Logger: log,
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

// DatabaseOptions say where MongoDB is.
func DatabaseOptions(c config.Config, log *slog.Logger) mongodb.Options {
	return mongodb.Options{URI: c.MongoDB.URI.Reveal(), Database: c.MongoDB.Database, WriteTimeout: c.MongoDB.WriteTimeout, Logger: log}
}

// SeriesSettings say how time series are set up.
func SeriesSettings(c config.Config) collection.Settings {
	return collection.Settings{
		View: collection.ViewKind(c.MongoDB.View), Segments: collection.Segments(c.Flush.Segments), MetaPaths: c.MongoDB.MetaIndexes,
	}
}

// collection is the definition of the time series.
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

// Bucketing are the catalog's settings for a time series.
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

// Namespace is the name of a topic's time series, with the database's before it.
func Namespace(c config.Config, topic string) string {
	return c.MongoDB.Database + "." + c.SeriesFor(topic)
}

// NewDecoder makes a decoder of events, and the definition of the time series that they are for.
func NewDecoder(c config.Config) (*measurement.Decoder, timeseries.Options, error) {
	return NewAskingDecoder(context.Background(), c, nil)
}

// Decoding are the settings of events.
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

// Portion is how many bytes of records a worker takes at a time. The budget reserves room for a piece of a fetch; what producers
// compressed by themselves unfolds to more than its piece, so no more than a piece's bytes are unfolded before the budget is told.
func Portion(c config.Config) int {
	if c.Event.Compression != string(measurement.NoCompression) {
		return pipeline.PieceBytes(Budget(c))
	}
	return pipeline.DefaultPortion
}

// LetterOptions are the settings of dead letters.
func LetterOptions(c config.Config) dlq.Options {
	return dlq.Options{
		Sources: c.Kafka.Topics, TopicFor: c.DeadLettersFor, GroupID: c.Kafka.GroupID, Create: c.DLQ.Create,
		Partitions: c.DLQ.Partitions, Replication: c.DLQ.Replication, Retention: c.DLQ.Retention,
	}
}

// ClosingReserve is what a shutdown keeps of its time for closing connections and pages, after the group was left. It is part of
// SHUTDOWN_TIMEOUT: a supervisor kills a process that takes longer.
func ClosingReserve(shutdown time.Duration) time.Duration { return min(time.Second, shutdown/10) }

// Grace is how long a write may still be executed after it was sent: once the write timeout on the way, once by maxTimeMS.
func Grace(c config.Config) time.Duration { return 2 * c.MongoDB.WriteTimeout }
