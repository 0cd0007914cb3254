package metrics

// Kind is the type of a metric in Prometheus.
type Kind string

// These are the kinds of metrics.
const (
	Counter   Kind = "counter"
	Gauge     Kind = "gauge"
	Histogram Kind = "histogram"
)

// Metric is one row of the table.
type Metric struct {
	// Name is the name without the prefix.
	Name string
	Kind Kind
	// Labels are comma-separated. A label with a closed set of values lists them after "=", separated by "|".
	Labels string
	// Unit is the unit of a value, or what it counts, in the plural.
	Unit string
	// Help is the meaning, in Markdown.
	Help string
}

// Section is a group of metrics under one heading of the document.
type Section struct {
	Title   string
	Metrics []Metric
}

// partition are the labels of metrics that are counted by partition.
const partition = "topic,partition"

// Table lists all metrics, in the order of the document.
var Table = []Section{
	{"Records and letters", []Metric{
		{"records_read_total", Counter, partition, "records", "records read from Kafka"},
		{"measurements_stored_total", Counter, partition, "measurements", "measurements that became durable"},
		{"measurements_skipped_total", Counter, partition + ",reason=replayed|tombstone|event_skip", "measurements", "`replayed`: stored before; `tombstone`: a null value, or one with a null at `EVENT_ROOT`; `event_skip`: an event that `EVENT_SKIP` leaves out, or one whose lists in `EVENT_LIST` are empty"},
		{"letters_total", Counter, partition + ",reason", "letters", "letters acknowledged by the dead-letter topic, by [reason](runbook.md#letters)"},
		{"unreadable_batches_skipped_total", Counter, partition, "record batches", "record batches that `KAFKA_SKIP_CORRUPT` skipped"},
		{"records_expired_total", Counter, partition, "records", "records that retention deleted before they were read"},
	}},
	{"Time", []Metric{
		{"lag_records", Gauge, partition, "records", "records of the log not committed yet: the log's end (its high watermark, as Kafka's own tools count, and so also what lies behind an open transaction) less the committed offset, also while the partition waits, is paused or has stopped. Missing only while one of the two is not known"},
		{"lag_seconds", Gauge, partition, "seconds", "time between the oldest record read that is not durable and the newest one read, by their timestamps"},
		{"freshness_seconds", Gauge, partition, "seconds", "age of the oldest record that is not durable, by its timestamp, give or take a second; 0 when nothing that was read waits and nothing is left to read. Of a partition that is not read, or waits for an open transaction, the first unread record is looked at within seconds; until then, and where it cannot be read, it counts as old as it is known to be there"},
		{"oldest_pending_seconds", Gauge, partition, "seconds", "how long the oldest pending measurement has waited"},
		{"flush_duration_seconds", Histogram, "", "seconds", "from the cut of a flush until all of it is resolved"},
		{"flush_measurements", Histogram, "", "measurements", "measurements in a flush"},
		{"flushes_total", Counter, partition + ",trigger=interval|bytes|count|memory|caught_up|dense|rest|revoke|shutdown", "flushes", "flushes by cause: `interval`, `bytes`, `count`, `memory`, `caught_up` (the end of the log was reached after a lag), `dense` (behind the end of the log: enough for dense buckets), `rest` (the flush before had as many writes as one may have), `revoke`, `shutdown`"},
	}},
	{"Writes", []Metric{
		{"writes_total", Counter, partition + ",kind=insert|update|segment,outcome=applied|reconciled|conflict|retried|refused", "writes", "bucket writes (`insert`, `update`, `segment`): `applied`; `reconciled`: found applied by reading back; `conflict`: the bucket was changed by something else; `retried`: certainly not executed, sent again; `refused`"},
		{"measurements_per_write", Histogram, "", "measurements", "measurements added by one bucket write: the larger, the cheaper"},
		{"unknown_writes", Gauge, "", "writes", "writes that were sent and whose outcome is not known"},
		{"mongodb_command_duration_seconds", Histogram, "command", "seconds", "from sending a command to MongoDB to its answer, or to giving it up"},
		{"mongodb_write_attempts_total", Counter, partition + ",kind=insert|update,result=acked|not_executed|unknown|refused", "attempts", "single attempts: `acked`, `not_executed` (not sent, for want of time or of a connection, or taken by no primary), `unknown`, `refused`. A slow MongoDB alone makes none `unknown`"},
		{"mongodb_writes_stopped_total", Counter, "", "messages", "messages that the connection held back because the lease had lapsed"},
		{"send_limit_bytes", Gauge, partition, "bytes", "how many bytes of writes are sent to MongoDB at a time, at most (each write counts 4 KiB beside its own): as many as it lately answered in a quarter of `MONGODB_WRITE_TIMEOUT`. It falls where MongoDB is slow, and grows again by itself"},
	}},
	{"Buckets", []Metric{
		{"buckets_opened_total", Counter, partition, "buckets", "new buckets"},
		{"buckets_closed_total", Counter, partition + ",reason=count|size|cache|schema|time_forward|memory|reopening|delta_cost", "buckets", "buckets that take no more measurements: `count`, `size`, `cache`, `schema`, `time_forward`, `memory`, `reopening`, `delta_cost`"},
		{"buckets_archived_total", Counter, partition + ",reason=time_backward|memory", "buckets", "buckets put aside, to be found again: `time_backward`, `memory`"},
		{"buckets_reopened_total", Counter, partition + ",path=archived|query", "buckets", "`archived`: found by its `_id`; `query`: by series and time"},
		{"bucket_lookups_total", Counter, partition + ",path=archived|query,found=true|false", "look-ups", "look-ups of stored buckets"},
		{"bucket_writes_total", Counter, partition + ",kind=segment|insert|update|close", "writes", "applied writes: `segment`: of a segment; `insert`: the first of a bucket; `update`: a later one with measurements; `close`: one that only closes"},
		{"bucket_commits_total", Counter, partition, "writes", "applied writes with measurements"},
		{"bucket_measurements_committed_total", Counter, partition, "measurements", "the measurements in them"},
		{"buckets_opened_due_to_metadata_total", Counter, partition, "buckets", "new buckets of series that had no open one"},
		{"buckets_kept_open_due_to_large_measurements_total", Counter, partition, "buckets", "buckets above their size that stayed open for few, large measurements"},
		{"bucket_reopenings_failed_total", Counter, partition, "buckets", "stored buckets that were found and not fit to be reopened"},
		{"duplicate_buckets_reopened_total", Counter, partition, "buckets", "stored buckets that were found and in memory already"},
		{"bucket_documents_too_large_total", Counter, partition + ",kind=insert|update", "writes", "writes that would have made a document too large: `insert`, `update`"},
		{"buckets_cleared_total", Counter, partition, "buckets", "buckets forgotten because something else has written to their series"},
		{"bucket_fill_ratio", Gauge, "", "ratio", "measurements stored for each bucket written to, of `BUCKET_MAX_COUNT`, by the catalogs in memory: see [below](#few-measurements-a-bucket) when it is low. Missing before the first write"},
		{"open_buckets", Gauge, "", "buckets", "open buckets in memory"},
		{"archived_buckets", Gauge, "", "buckets", "archived buckets in memory"},
		{"active_buckets", Gauge, "", "buckets", "open and archived buckets in memory"},
		{"series", Gauge, "", "series", "series in memory"},
		{"series_max_exceeded_total", Counter, "", "looks", "looks, once a minute, that found more series in memory than `SERIES_MAX`; the log names the fields of meta that vary most"},
	}},
	{"Segments", []Metric{
		{"segment_measurements_total", Counter, partition, "measurements", "measurements written into segments; those of `measurements_stored_total` that are not among them went into buckets at once"},
		{"open_segments", Gauge, partition, "segments", "segments that have not ended"},
		{"open_segment_measurements", Gauge, partition, "measurements", "measurements in them; above `SEGMENT_MEASUREMENTS_MAX` compaction does not wait for `COMPACT_INTERVAL`"},
		{"oldest_open_segment_seconds", Gauge, partition, "seconds", "how long the oldest of them is known to this owner; what a former owner left counts as nearly a `COMPACT_INTERVAL` old. Well above `COMPACT_INTERVAL` compaction does not keep up"},
		{"compactions_total", Counter, partition + ",outcome=finished|rolled_back,reason=|unknown_outcome|too_slow|refused|damaged_segment|left_by_another_owner", "compactions", "compactions of segments into buckets. `finished`; `rolled_back`: the segments stay and are compacted later, for a reason: `unknown_outcome` (MongoDB did not answer a step), `too_slow` (the buckets were not stored well before queries would see them), `refused`, `damaged_segment`, `left_by_another_owner`"},
		{"measurements_compacted_total", Counter, partition, "measurements", "measurements compacted into buckets"},
		{"compaction_duration_seconds", Histogram, "", "seconds", "from the freezing of segments until they have ended"},
	}},
	{"Rollups", []Metric{
		{"rollup_behind_seconds", Gauge, "", "seconds", "how long ago the rollups of the partition that waits longest were complete, or the partition came to this process. Well above `ROLLUP_INTERVAL` they do not keep up. Missing, as all of these, without `ROLLUP_LEVELS`"},
		{"rollup_interval_seconds", Gauge, "", "seconds", "`ROLLUP_INTERVAL`"},
		{"rollup_passes_total", Counter, "outcome=done|failed", "passes", "passes that bring the rollups of a partition up to date: `done`; `failed`: tried again, and the log says why"},
		{"rollup_rows_total", Counter, "level=1m|1h|1d", "rows", "rows written, of which most replace equal ones"},
		{"rollup_frozen_total", Counter, "", "measurements", "late measurements that are in no rollup, since their hours have expired, or something has deleted measurements of them"},
		{"rollup_work_seconds_total", Counter, "", "seconds", "time spent on rollups, without rests"},
	}},
	{"Memory", []Metric{
		{"memory_bytes", Gauge, "kind=buckets|pending|stored_positions|letters|ledger|fetch|reserved", "bytes", "`buckets`; `pending`: measurements that wait for a write; `stored_positions`: what is known to be stored while records are replayed; `letters`; `ledger`: what keeps track of writes, letters and look-ups; `fetch`: records and answers to look-ups that have come and were not looked at yet; `reserved`: what the next flush will take for its encoded writes"},
		{"memory_limit_bytes", Gauge, "", "bytes", "the budget of these together"},
		{"fetch_paused", Gauge, partition, "0 or 1", "1 while nothing is fetched because too much waits"},
	}},
	{"Kafka", []Metric{
		{"assigned_partitions", Gauge, "", "partitions", "partitions of this consumer"},
		{"assignments_refused_total", Counter, "", "assignments", "assignments of which nothing was taken, because another program is a member of the group"},
		{"partitions_ignored_total", Counter, partition, "assignments", "assignments of a partition that was left alone, because its topic is not in `KAFKA_TOPICS`"},
		{"rebalances_total", Counter, "kind=rebalance|topics|lost|shutdown", "generations", "generations of the group that ended for this member: `rebalance`, `topics` (one grew, appeared or was created again), `lost` (the group went on without this member), `shutdown`"},
		{"generation_seconds", Gauge, "", "seconds", "age of the present generation, 0 while there is none"},
		{"commits_total", Counter, "outcome=committed|refused|unanswered|generation_over", "requests", "requests that commit the offsets of all partitions: `committed`, `refused`, `unanswered`, `generation_over`"},
		{"fetch_errors_total", Counter, partition + ",code", "fetches", "failed fetches. `code` is the name of Kafka's error code, as `UNKNOWN_TOPIC_OR_PARTITION`, or `network`, `timeout`, `no_leader`, `corrupt`, `unreadable`, or `other` for a code that a fetch is not known to answer"},
		{"group_retries_total", Counter, "request=join|sync|heartbeat|topics|leave", "requests", "requests of the membership that are repeated"},
	}},
	{"Stored once", []Metric{
		{"claims_total", Counter, partition + ",outcome=cold|warm|lost|refused", "claims", "`cold`: what is stored was read; `warm`: the catalog went on; `lost`: another consumer was quicker; `refused`: another group writes the collection"},
		{"claim_wait_seconds", Gauge, partition, "seconds", "how much of the wait for a former owner's writes is left"},
		{"lease_lapsed_seconds_total", Counter, "", "seconds", "time in which nothing might be written because no two commits in a row were answered"},
		{"flushes_abandoned_total", Counter, partition, "flushes", "flushes given up at the end of a term"},
		{"partitions_stopped", Gauge, "reason", "partitions", "partitions that wait for you to act, by [reason](runbook.md#stopped-partitions). Missing while there is none"},
	}},
	{"Schema registry", []Metric{
		{"schema_requests_total", Counter, "result=found|not_found|failed", "requests", "requests to the schema registry: `found`, `not_found`, `failed` (no answer, or none of a registry). Missing, as the next one, without `SCHEMA_REGISTRY_URL`"},
		{"schemas_cached", Gauge, "", "schemas", "schemas that are kept in memory, and not asked for again"},
		{"schema_wait_seconds", Gauge, partition, "seconds", "how long the next record has waited for its schema, and the partition with it; 0 when it does not wait"},
	}},
	{"Outages", []Metric{
		{"retries_total", Counter, partition + ",operation", "attempts", "attempts that failed and are repeated; `operation` is what they were for"},
		{"outage_seconds_total", Counter, "dependency=mongodb|kafka|dlq|registry", "seconds", "time in which `mongodb`, `kafka`, `dlq` (the dead-letter topic) or `registry` (the schema registry) did not do its part"},
	}},
	{"Program", []Metric{
		{"build_info", Gauge, "version,revision,goversion", "1", "always 1: the running program, in its labels"},
	}},
}
