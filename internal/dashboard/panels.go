package dashboard

// row is a group of panels under a heading.
type row struct {
	title  string
	panels []panel
}

// panel shows the results of queries.
type panel struct {
	title string
	// about is one sentence about what the panel shows, and how to interpret it.
	about string
	kind  kind
	// width is a number of columns. A line has lineWidth columns.
	width int
	// unit is Grafana's name of a unit.
	unit    string
	queries []query
	// warn and alarm are thresholds of a number. Zero means none.
	warn, alarm float64
}

// query is in PromQL. %topic% stands for the matchers of metrics that are counted by partition, and %job% for the matchers of all
// others.
type query struct {
	expression string
	legend     string
}

// kind is a type of panel.
type kind string

const (
	lines   kind = "lines"
	stacked kind = "stacked" // lines on top of each other: parts of a whole
	number  kind = "number"
)

const (
	half  = lineWidth / 2
	third = lineWidth / 3
	sixth = lineWidth / 6
)

// rows are the dashboard's rows. Counters of events that have not happened yet are shown as zero. So "No data" always means that
// nothing is scraped.
var rows = []row{
	{"Overview", []panel{
		{"Stored per second", "Measurements durably stored in MongoDB per second.", number, sixth, "cps", []query{
			{`sum(rate(waterwheel_measurements_stored_total{%topic%}[$__rate_interval]))`, "stored"},
		}, 0, 0},
		{"Freshness", "Age of the oldest record that is not stored, over all partitions; alerts fire above 2 and 10 minutes.", number, sixth, "s", []query{
			{`max(waterwheel_freshness_seconds{%topic%})`, "oldest"},
		}, 120, 600},
		{"Lag", "Records in Kafka that are not committed yet; without a backlog, these are the records that arrive within about two flushes.", number, sixth, "short", []query{
			{`sum(waterwheel_lag_records{%topic%})`, "records"},
		}, 0, 0},
		{"Dead letters", "Records in the selected time range that could not be stored and went to the dead-letter topic.", number, sixth, "short", []query{
			{`sum(increase(waterwheel_dead_letters_total{%topic%}[$__range]))`, "dead letters"},
		}, 1, 0},
		{"Stopped partitions", "Partitions that have stopped and wait for an operator; the runbook has an entry for each reason.", number, sixth, "short", []query{
			{`sum(waterwheel_partitions_stopped{%job%}) or vector(0)`, "partitions"},
		}, 0, 1},
		{"Consumers", "Consumers that Prometheus scrapes now.", number, sixth, "short", []query{
			{`sum(waterwheel_build_info{%job%})`, "consumers"},
		}, 0, 0},
		{"Stored per second, by topic", "Measurements durably stored in MongoDB per second, by topic.", lines, half, "cps", []query{
			{`sum by (topic) (rate(waterwheel_measurements_stored_total{%topic%}[$__rate_interval]))`, "{{topic}}"},
		}, 0, 0},
		{"Freshness of each topic", "Age of the oldest record that is not stored, for the worst partition of each topic, and 0 while a topic is idle.", lines, half, "s", []query{
			{`max by (topic) (waterwheel_freshness_seconds{%topic%})`, "{{topic}}"},
		}, 0, 0},
		{"Lag of each partition", "The ten partitions with the most uncommitted records; if the lag of a single partition grows, it has a busy key or has stopped.", lines, half, "short", []query{
			{`topk(10, max by (topic, partition) (waterwheel_lag_records{%topic%}))`, "{{topic}}/{{partition}}"},
		}, 0, 0},
		{"Dead letters per minute", "Records that went to the dead-letter topic, by reason; the runbook has an entry for each.", stacked, half, "short", []query{
			{`60 * sum by (reason) (rate(waterwheel_dead_letters_total{%topic%}[$__rate_interval]))`, "{{reason}}"},
		}, 0, 0},
	}},
	{"Flushes and writes", []panel{
		{"Duration of a flush", "Time from the start of a flush until all its writes are acknowledged, which grows when MongoDB is slow.", lines, third, "s", []query{
			{`histogram_quantile(0.5, sum by (le) (rate(waterwheel_flush_duration_seconds_bucket{%job%}[$__rate_interval])))`, "median"},
			{`histogram_quantile(0.99, sum by (le) (rate(waterwheel_flush_duration_seconds_bucket{%job%}[$__rate_interval])))`, "99 %"},
		}, 0, 0},
		{"Flushes by cause", "Flushes by cause; many flushes by memory or bytes mean that MongoDB is slower than the incoming records.", stacked, third, "ops", []query{
			{`sum by (trigger) (rate(waterwheel_flushes_total{%topic%}[$__rate_interval]))`, "{{trigger}}"},
		}, 0, 0},
		{"Measurements per write", "Average number of measurements added by one write; the higher it is, the less each measurement costs MongoDB.", lines, third, "short", []query{
			{`sum(rate(waterwheel_measurements_per_write_sum{%job%}[$__rate_interval])) / sum(rate(waterwheel_measurements_per_write_count{%job%}[$__rate_interval]))`, "measurements"},
		}, 0, 0},
		{"Writes by outcome", "Writes of buckets and segments by outcome; conflicts mean that another writer changes the buckets.", stacked, third, "wps", []query{
			{`sum by (kind, outcome) (rate(waterwheel_writes_total{%topic%}[$__rate_interval]))`, "{{kind}} {{outcome}}"},
		}, 0, 0},
		{"Buckets opened, closed and archived", "Buckets opened, closed and archived per second, by reason; docs/metrics.md explains the reasons and what helps.", lines, third, "ops", []query{
			{`sum(rate(waterwheel_buckets_opened_total{%topic%}[$__rate_interval]))`, "opened"},
			{`sum by (reason) (rate(waterwheel_buckets_closed_total{%topic%}[$__rate_interval]))`, "closed: {{reason}}"},
			{`sum by (reason) (rate(waterwheel_buckets_archived_total{%topic%}[$__rate_interval]))`, "archived: {{reason}}"},
		}, 0, 0},
		{"Fill of buckets", "Measurements per bucket as a share of BUCKET_MAX_COUNT, by consumer.", lines, third, "percentunit", []query{
			{`waterwheel_bucket_fill_ratio{%job%}`, "{{instance}}"},
		}, 0, 0},
	}},
	{"MongoDB", []panel{
		{"Duration of commands", "Time from sending a command to MongoDB until its answer, as the 99th percentile.", lines, third, "s", []query{
			{`histogram_quantile(0.99, sum by (le, command) (rate(waterwheel_mongodb_command_duration_seconds_bucket{%job%}[$__rate_interval])))`, "{{command}}"},
		}, 0, 0},
		{"Attempts to write", "Single attempts to execute a write, by result; the consumer resolves unknown results by reading the documents.", stacked, third, "wps", []query{
			{`sum by (kind, result) (rate(waterwheel_mongodb_write_attempts_total{%topic%}[$__rate_interval]))`, "{{kind}} {{result}}"},
		}, 0, 0},
		{"Limit of bytes sent at a time", "Maximum bytes of writes sent to MongoDB at a time; a falling limit shows that MongoDB is slow.", lines, third, "bytes", []query{
			{`min by (topic) (waterwheel_send_limit_bytes{%topic%})`, "{{topic}}"},
		}, 0, 0},
		{"Outages", "Share of the time in which a dependency failed, as observed by the consumer that was affected most.", lines, third, "percentunit", []query{
			{`max by (dependency) (rate(waterwheel_outage_seconds_total{%job%}[$__rate_interval]))`, "{{dependency}}"},
		}, 0, 0},
		{"Repeated attempts", "Attempts that failed and are repeated, by operation.", stacked, third, "ops", []query{
			{`sum by (operation) (rate(waterwheel_retries_total{%topic%}[$__rate_interval]))`, "{{operation}}"},
		}, 0, 0},
		{"Writes of unknown outcome", "Writes whose outcome is not known yet, and messages that were not sent because the lease had expired.", lines, third, "short", []query{
			{`sum(waterwheel_unknown_writes{%job%})`, "unknown"},
			{`sum(increase(waterwheel_mongodb_writes_stopped_total{%job%}[$__rate_interval]))`, "not sent"},
		}, 0, 0},
	}},
	{"Kafka and the group", []panel{
		{"Records read", "Records read per second by topic, and the measurements in them that were stored before.", lines, third, "cps", []query{
			{`sum by (topic) (rate(waterwheel_records_read_total{%topic%}[$__rate_interval]))`, "{{topic}}"},
			{`sum by (topic) (rate(waterwheel_measurements_skipped_total{%topic%, reason="replayed"}[$__rate_interval]))`, "{{topic}}, stored before"},
		}, 0, 0},
		{"Failed fetches", "Failed fetches by Kafka's error code.", stacked, third, "ops", []query{
			{`sum by (code) (rate(waterwheel_fetch_errors_total{%topic%}[$__rate_interval])) or label_replace(vector(0), "code", "none", "", "")`, "{{code}}"},
		}, 0, 0},
		{"Lost to retention", "Records that Kafka's retention deleted before they were read.", lines, third, "short", []query{
			{`sum by (topic) (increase(waterwheel_records_expired_total{%topic%}[$__rate_interval]))`, "{{topic}}"},
		}, 0, 0},
		{"Partitions of each consumer", "Partitions assigned to each consumer; the height of the stack is the number of partitions of all topics.", stacked, third, "short", []query{
			{`sum by (instance) (waterwheel_assigned_partitions{%job%})`, "{{instance}}"},
		}, 0, 0},
		{"Rebalances", "Generations of the group that ended, by cause; a steady number means that members keep joining and leaving.", stacked, third, "short", []query{
			{`sum by (kind) (increase(waterwheel_rebalances_total{%job%}[$__rate_interval]))`, "{{kind}}"},
		}, 0, 0},
		{"Claims", "Claims of partitions by outcome; a cold claim reads the stored positions, and a lost claim means that another consumer was first.", stacked, third, "short", []query{
			{`sum by (outcome) (increase(waterwheel_claims_total{%topic%}[$__rate_interval]))`, "{{outcome}}"},
		}, 0, 0},
		{"Commits", "Requests to commit offsets, by outcome.", stacked, third, "ops", []query{
			{`sum by (outcome) (rate(waterwheel_commits_total{%job%}[$__rate_interval]))`, "{{outcome}}"},
		}, 0, 0},
		{"Expired leases", "Share of the time in which a consumer could not write because its commits were not answered in time.", lines, third, "percentunit", []query{
			{`rate(waterwheel_lease_lapsed_seconds_total{%job%}[$__rate_interval])`, "{{instance}}"},
		}, 0, 0},
		{"Wait before a claim", "Remaining wait until writes of the previous owner can no longer arrive, for the partition of each topic that waits longest.", lines, third, "s", []query{
			{`max by (topic) (waterwheel_claim_wait_seconds{%topic%})`, "{{topic}}"},
		}, 0, 0},
	}},
	{"Memory", []panel{
		{"Memory by kind", "Memory that counts towards the budget, by kind, and the budget of all consumers together.", stacked, half, "bytes", []query{
			{`sum by (kind) (waterwheel_memory_bytes{%job%})`, "{{kind}}"},
			{`sum(waterwheel_memory_limit_bytes{%job%})`, "budget"},
		}, 0, 0},
		{"Memory and processor time of the process", "Resident memory of each consumer, and the number of processors that it keeps busy.", lines, half, "short", []query{
			{`process_resident_memory_bytes{%job%} / 1048576`, "{{instance}}: MiB"},
			{`rate(process_cpu_seconds_total{%job%}[$__rate_interval])`, "{{instance}}: processors"},
		}, 0, 0},
		{"Series and buckets in memory", "Series, open buckets and archived buckets; if the series grow without end, a value in meta varies with each event.", lines, half, "short", []query{
			{`sum(waterwheel_series{%job%})`, "series"},
			{`sum(waterwheel_open_buckets{%job%})`, "open buckets"},
			{`sum(waterwheel_archived_buckets{%job%})`, "archived buckets"},
		}, 0, 0},
		{"Paused partitions", "Partitions that are not fetched because too much data waits in memory; an alert fires after 15 minutes.", lines, half, "short", []query{
			{`sum by (topic) (waterwheel_fetch_paused{%topic%})`, "{{topic}}"},
		}, 0, 0},
	}},
	{"Segments", []panel{
		{"Measurements into segments and buckets", "Measurements written into segments per second, and measurements compacted from segments into buckets per second.", lines, third, "cps", []query{
			{`sum(rate(waterwheel_segment_measurements_total{%topic%}[$__rate_interval]))`, "into segments"},
			{`sum(rate(waterwheel_measurements_compacted_total{%topic%}[$__rate_interval]))`, "into buckets"},
		}, 0, 0},
		{"Age of open segments", "Time since the consumer wrote or found the oldest open segment; if it is well above COMPACT_INTERVAL, compaction does not keep up.", lines, third, "s", []query{
			{`max by (topic) (waterwheel_oldest_open_segment_seconds{%topic%})`, "{{topic}}"},
		}, 0, 0},
		{"Measurements in open segments", "Measurements in segments that are not compacted into buckets yet, by topic.", lines, third, "short", []query{
			{`sum by (topic) (waterwheel_open_segment_measurements{%topic%})`, "{{topic}}"},
		}, 0, 0},
		{"Compactions", "Finished compactions of segments into buckets.", lines, third, "short", []query{
			{`sum by (topic) (increase(waterwheel_compactions_total{%topic%, outcome="finished"}[$__rate_interval]))`, "{{topic}}"},
		}, 0, 0},
		{"Compactions rolled back", "Compactions that were rolled back and are repeated, by reason; they should be rare.", stacked, third, "short", []query{
			{`sum by (reason) (increase(waterwheel_compactions_total{%topic%, outcome="rolled_back"}[$__rate_interval]))`, "{{reason}}"},
		}, 0, 0},
		{"Duration of a compaction", "Time from freezing the segments until they have ended, as the 99th percentile.", lines, third, "s", []query{
			{`histogram_quantile(0.99, sum by (le) (rate(waterwheel_compaction_duration_seconds_bucket{%job%}[$__rate_interval])))`, "99 %"},
		}, 0, 0},
	}},
}

// events are the annotations, which are drawn into every panel.
var events = []struct{ name, color, expression, text string }{
	{"Rebalances", "blue", `sum by (instance, kind) (increase(waterwheel_rebalances_total{%job%, kind=~"rebalance|topics|lost"}[1m])) > 0`, "{{instance}}: {{kind}}"},
	{"Outages", "red", `sum by (instance, dependency) (increase(waterwheel_outage_seconds_total{%job%}[1m])) > 0`, "{{instance}}: {{dependency}}"},
}
