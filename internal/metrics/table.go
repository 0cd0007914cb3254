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
	{"Records and dead letters", []Metric{
		{"records_read_total", Counter, partition, "records", "records read from Kafka"},
		{"measurements_stored_total", Counter, partition, "measurements", "measurements durably stored in MongoDB"},
		{"measurements_skipped_total", Counter, partition + ",reason=replayed|tombstone|event_skip", "measurements", "measurements and events that were skipped, by reason: `replayed` (stored before), `tombstone` (a null value, or a value with null at `EVENT_ROOT`), `event_skip` (an event that `EVENT_SKIP` excludes, or whose lists in `EVENT_LIST` are empty)"},
		{"dead_letters_total", Counter, partition + ",reason", "dead letters", "dead letters acknowledged by the dead-letter topic, by [reason](runbook.md#dead-letters)"},
		{"unreadable_batches_skipped_total", Counter, partition, "record batches", "unreadable record batches that were skipped because `KAFKA_SKIP_CORRUPT` lists them"},
		{"records_expired_total", Counter, partition, "records", "records that Kafka's retention deleted before they were read"},
	}},
	{"Time", []Metric{
		{"lag_records", Gauge, partition, "records", "records that are not committed yet: the high watermark minus the committed offset, as Kafka's own tools count. This includes records after an open transaction. The lag is also reported while the partition waits, is paused or has stopped. It is missing while one of the two offsets is unknown"},
		{"lag_seconds", Gauge, partition, "seconds", "time between the oldest record read that is not durable and the newest record read, by their timestamps"},
		{"freshness_seconds", Gauge, partition, "seconds", "age of the oldest record that is not durable, 0 when every record is durable. The age follows from the record's timestamp and is exact to about a second. If the partition is not read, or waits for an open transaction, the consumer looks up the timestamp of the first unread record within seconds. Until it knows the timestamp, and if it cannot read the record, the age counts from the moment when it learnt of the record"},
		{"oldest_pending_seconds", Gauge, partition, "seconds", "how long the oldest measurement has waited for a flush"},
		{"flush_duration_seconds", Histogram, "", "seconds", "time from the start of a flush until the outcome of all its writes is known"},
		{"flush_measurements", Histogram, "", "measurements", "measurements in a flush"},
		{"flushes_total", Counter, partition + ",trigger=interval|bytes|count|memory|caught_up|dense|rest|revoke|shutdown", "flushes", "flushes, by cause: `interval`, `bytes`, `count` (`FLUSH_INTERVAL`, `FLUSH_BYTES` or `FLUSH_COUNT` was reached), `memory` (memory is short), `caught_up` (the end of the log was reached after a lag), `dense` (during a lag, enough measurements wait to fill dense buckets), `rest` (the previous flush had the maximum number of writes, and this flush has the rest), `revoke` (the partition is being revoked), `shutdown`"},
	}},
	{"Writes", []Metric{
		{"writes_total", Counter, partition + ",kind=insert|update|segment,outcome=applied|reconciled|conflict|retried|refused", "writes", "writes of buckets and segments, by outcome: `applied`; `reconciled` (the outcome was unknown, and a read found the write applied); `conflict` (another writer had changed the bucket); `retried` (the write was certainly not executed, and is sent again); `refused` (by MongoDB)"},
		{"measurements_per_write", Histogram, "", "measurements", "measurements added by one write. The more measurements a write adds, the less each costs MongoDB"},
		{"unknown_writes", Gauge, "", "writes", "writes that were sent to MongoDB and whose outcome is unknown"},
		{"mongodb_command_duration_seconds", Histogram, "command", "seconds", "time from sending a command to MongoDB until its answer, or until the consumer stops waiting for it"},
		{"mongodb_write_attempts_total", Counter, partition + ",kind=insert|update,result=acked|not_executed|unknown|refused", "attempts", "attempts to execute a write in MongoDB, by result: `acked`, `not_executed` (not sent, because there was no time or no connection left, or not accepted by any primary), `unknown`, `refused`. A slow MongoDB alone does not cause `unknown`"},
		{"mongodb_writes_stopped_total", Counter, "", "messages", "messages that the connection did not send to MongoDB because the lease had expired"},
		{"send_limit_bytes", Gauge, partition, "bytes", "maximum bytes of writes sent to MongoDB at a time, adjusted to its recent response times. The limit is the amount that MongoDB recently acknowledged within a quarter of `MONGODB_WRITE_TIMEOUT`; each write counts 4 KiB in addition to its size. The limit falls when MongoDB is slow and recovers by itself"},
	}},
	{"Buckets", []Metric{
		{"buckets_opened_total", Counter, partition, "buckets", "new buckets"},
		{"buckets_closed_total", Counter, partition + ",reason=count|size|cache|schema|time_forward|memory|reopening|delta_cost", "buckets", "buckets that take no more measurements, by reason: `count` (`BUCKET_MAX_COUNT`), `size` (`BUCKET_MAX_BYTES`), `cache` (a lower size limit, because many buckets are in memory), `schema` (types of fields changed), `time_forward` (a measurement is later than the span of the bucket), `memory`, `reopening` (another bucket of the series was reopened), `delta_cost` (`BUCKET_DELTA_MAX`)"},
		{"buckets_archived_total", Counter, partition + ",reason=time_backward|memory", "buckets", "buckets that were archived and can be reopened, by reason: `time_backward` (a measurement is earlier than the bucket), `memory`"},
		{"buckets_reopened_total", Counter, partition + ",path=archived|query", "buckets", "stored buckets that were reopened, by how they were found: `archived` (by `_id`), `query` (by series and time)"},
		{"bucket_lookups_total", Counter, partition + ",path=archived|query,found=true|false", "look-ups", "look-ups of stored buckets, by path and whether a bucket was found"},
		{"bucket_writes_total", Counter, partition + ",kind=segment|insert|update|close", "writes", "applied writes, by kind: `segment` (of a segment), `insert` (the first write of a bucket), `update` (a later write with measurements), `close` (a write that only closes a bucket)"},
		{"bucket_commits_total", Counter, partition, "writes", "applied writes that added measurements"},
		{"bucket_measurements_committed_total", Counter, partition, "measurements", "measurements added by applied writes"},
		{"buckets_opened_due_to_metadata_total", Counter, partition, "buckets", "new buckets of series that had no open bucket"},
		{"buckets_kept_open_due_to_large_measurements_total", Counter, partition, "buckets", "buckets above the size limit that stayed open because they have few, large measurements"},
		{"bucket_reopenings_failed_total", Counter, partition, "buckets", "stored buckets that were found but could not be reopened"},
		{"duplicate_buckets_reopened_total", Counter, partition, "buckets", "stored buckets that were found but were already in memory"},
		{"bucket_documents_too_large_total", Counter, partition + ",kind=insert|update", "writes", "writes that would have made a document too large for MongoDB, by kind: `insert`, `update`"},
		{"buckets_cleared_total", Counter, partition, "buckets", "buckets removed from memory because another writer has written to their series"},
		{"bucket_fill_ratio", Gauge, "", "ratio", "measurements stored per bucket written, as a fraction of `BUCKET_MAX_COUNT`. It covers the bucket catalogs that are in memory now, without segments and the buckets made from them. If it is low, see [below](#few-measurements-per-bucket). It is missing before the first write"},
		{"open_buckets", Gauge, "", "buckets", "open buckets in memory"},
		{"archived_buckets", Gauge, "", "buckets", "archived buckets in memory"},
		{"active_buckets", Gauge, "", "buckets", "open and archived buckets in memory"},
		{"series", Gauge, "", "series", "series in memory"},
		{"series_max_exceeded_total", Counter, "", "checks", "checks, once a minute, that found more series in memory than `SERIES_MAX`. The log then names the fields of meta that vary most"},
	}},
	{"Segments", []Metric{
		{"segment_measurements_total", Counter, partition, "measurements", "measurements written into segments. All other measurements in `measurements_stored_total` were written directly into buckets"},
		{"open_segments", Gauge, partition, "segments", "open segments, which are not compacted into buckets yet"},
		{"open_segment_measurements", Gauge, partition, "measurements", "measurements in open segments. Above `SEGMENT_MEASUREMENTS_MAX`, compaction does not wait for `COMPACT_INTERVAL`"},
		{"oldest_open_segment_seconds", Gauge, partition, "seconds", "time since this consumer wrote or found the oldest open segment. A segment of a former owner counts as nearly one `COMPACT_INTERVAL` old. If the value is well above `COMPACT_INTERVAL`, compaction does not keep up"},
		{"compactions_total", Counter, partition + ",outcome=finished|rolled_back,reason=|unknown_outcome|too_slow|refused|damaged_segment|left_by_another_owner", "compactions", "compactions of segments into buckets, by outcome: `finished`; `rolled_back` (the segments stay and are compacted later). The reasons of `rolled_back` are `unknown_outcome` (MongoDB did not answer a step), `too_slow` (the buckets were not stored well before queries would see them), `refused` (by MongoDB), `damaged_segment` and `left_by_another_owner`"},
		{"measurements_compacted_total", Counter, partition, "measurements", "measurements compacted from segments into buckets"},
		{"compaction_duration_seconds", Histogram, "", "seconds", "duration of a compaction, from freezing its segments until they have ended"},
	}},
	{"Rollups", []Metric{
		{"rollup_behind_seconds", Gauge, "", "seconds", "time since the rollups of the most delayed partition were complete. For a partition that is new to this process, the time counts from its assignment. If the value is well above `ROLLUP_INTERVAL`, rollups do not keep up. Without rollups the value stays below `ROLLUP_INTERVAL`"},
		{"rollup_interval_seconds", Gauge, "", "seconds", "the setting `ROLLUP_INTERVAL`, the time between two passes over a partition"},
		{"rollup_passes_total", Counter, "outcome=done|failed", "passes", "passes that bring the rollups of a partition up to date, by outcome: `done`; `failed` (the pass is repeated, and the log has the cause)"},
		{"rollup_rows_total", Counter, "level=1m|1h|1d", "rows", "rollup rows written. Most of them replace equal rows"},
		{"rollup_frozen_total", Counter, "", "measurements", "late measurements that are in no rollup, because their hours have expired, or because measurements of those hours were deleted"},
		{"rollup_work_seconds_total", Counter, "", "seconds", "time spent on rollups, without pauses"},
	}},
	{"Memory", []Metric{
		{"memory_bytes", Gauge, "kind=buckets|pending|stored_positions|dead_letters|tracking|fetch|reserved", "bytes", "memory that counts towards the budget, by kind: `buckets`; `pending` (measurements that wait for a write); `stored_positions` (positions known to be stored, while records are replayed); `dead_letters` (dead letters); `tracking` (tracking of writes, dead letters and look-ups); `fetch` (fetched records and results of look-ups that are not processed yet); `reserved` (for the encoded writes of the next flush)"},
		{"memory_limit_bytes", Gauge, "", "bytes", "the memory budget for all kinds together"},
		{"fetch_paused", Gauge, partition, "0 or 1", "1 while fetching is paused because too much data waits to be processed"},
	}},
	{"Kafka", []Metric{
		{"assigned_partitions", Gauge, "", "partitions", "partitions assigned to this consumer"},
		{"assignments_refused_total", Counter, "", "assignments", "assignments that this consumer refused because another program is a member of the group"},
		{"partitions_ignored_total", Counter, partition, "assignments", "assigned partitions that are not read because their topic is not in `KAFKA_TOPICS`"},
		{"topic_deleted", Gauge, "topic", "0 or 1", "1 if a topic that matched a pattern of `KAFKA_TOPICS` was deleted and is no longer read, 0 once it is read again. It is missing for other topics"},
		{"rebalances_total", Counter, "kind=rebalance|topics|lost|shutdown", "generations", "generations of the group that ended for this member, by cause: `rebalance`; `topics` (a topic got more partitions, was created or was recreated); `lost` (the group continued without this member); `shutdown`"},
		{"generation_seconds", Gauge, "", "seconds", "how long this member has been in the current generation of the group, 0 while it is in none"},
		{"commits_total", Counter, "outcome=committed|refused|unanswered|generation_over", "requests", "requests to commit offsets, by outcome: `committed`; `refused` (for at least one partition); `unanswered` (the commit may have been executed); `generation_over` (the generation has ended). One request commits the offsets of all partitions"},
		{"fetch_errors_total", Counter, partition + ",code", "fetches", "failed fetches, by error code. `code` is the name of Kafka's error code, for example `UNKNOWN_TOPIC_OR_PARTITION`, or one of `network`, `timeout`, `no_leader`, `corrupt` and `unreadable`. `other` stands for a Kafka error code that a fetch should not return"},
		{"group_retries_total", Counter, "request=join|sync|heartbeat|topics|leave", "requests", "requests about the group membership that are sent again, after no answer or a temporary error"},
	}},
	{"Claims and leases", []Metric{
		{"claims_total", Counter, partition + ",outcome=cold|warm|lost|refused", "claims", "claims of partitions, by outcome: `cold` (the consumer read the stored positions); `warm` (the consumer continued with the bucket catalog in memory); `lost` (another consumer claimed the partition first); `refused` (another consumer group writes to the collection)"},
		{"claim_wait_seconds", Gauge, partition, "seconds", "remaining wait until writes of the previous owner can no longer arrive"},
		{"lease_lapsed_seconds_total", Counter, "", "seconds", "time in which partitions were assigned but nothing could be written, because the lease had expired. A lease needs two consecutive commits that were answered"},
		{"flushes_abandoned_total", Counter, partition, "flushes", "flushes and compactions abandoned when this consumer's ownership of the partition ended"},
		{"partitions_stopped", Gauge, "reason", "partitions", "stopped partitions, which wait for an operator to act, by [reason](runbook.md#stopped-partitions). It is missing while no partition is stopped"},
	}},
	{"Schema registry", []Metric{
		{"schema_requests_total", Counter, "result=found|not_found|failed", "requests", "requests to the schema registry, by result: `found`; `not_found`; `failed` (no answer, or an answer that is not from a schema registry). Without `SCHEMA_REGISTRY_URL` this metric and the next one are missing"},
		{"schemas_cached", Gauge, "", "schemas", "schemas in memory, which are not requested again"},
		{"schema_wait_seconds", Gauge, partition, "seconds", "how long the next record has waited for its schema, 0 if it does not wait. The partition waits with the record"},
	}},
	{"Outages", []Metric{
		{"retries_total", Counter, partition + ",operation", "attempts", "attempts that failed and are repeated, by operation"},
		{"outage_seconds_total", Counter, "dependency=mongodb|kafka|coordinator|dlq|registry", "seconds", "time in which a dependency failed, as observed by this consumer: `mongodb`, `kafka`, `coordinator` (Kafka's group coordinator, which takes commits), `dlq` (the dead-letter topic) or `registry` (the schema registry)"},
	}},
	{"Program", []Metric{
		{"build_info", Gauge, "version,revision,goversion", "1", "always 1. The labels describe the running program"},
	}},
}
