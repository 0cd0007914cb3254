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
	{"Is it well?", []panel{
		{"Stored", "Measurements that became durable, each second.", number, sixth, "cps", []query{
			{`sum(rate(waterwheel_measurements_stored_total{%topic%}[$__rate_interval]))`, "stored"},
		}, 0, 0},
		{"Freshness", "Age of the oldest record that is not stored, over all partitions: alerts fire above 2 and 10 minutes.", number, sixth, "s", []query{
			{`max(waterwheel_freshness_seconds{%topic%})`, "oldest"},
		}, 120, 600},
		{"Lag", "Records in Kafka that are not committed yet: idle, it is about what arrives within two flushes.", number, sixth, "short", []query{
			{`sum(waterwheel_lag_records{%topic%})`, "records"},
		}, 0, 0},
		{"Dead letters", "Records of the time range that could not be stored and went to the dead-letter topic.", number, sixth, "short", []query{
			{`sum(increase(waterwheel_letters_total{%topic%}[$__range]))`, "letters"},
		}, 1, 0},
		{"Stopped partitions", "Partitions that wait for an operator: the runbook has an entry for each reason.", number, sixth, "short", []query{
			{`sum(waterwheel_partitions_stopped{%job%}) or vector(0)`, "partitions"},
		}, 0, 1},
		{"Consumers", "Consumers that are scraped now.", number, sixth, "short", []query{
			{`sum(waterwheel_build_info{%job%})`, "consumers"},
		}, 0, 0},
		{"Stored each second", "Measurements that became durable, by topic.", lines, half, "cps", []query{
			{`sum by (topic) (rate(waterwheel_measurements_stored_total{%topic%}[$__rate_interval]))`, "{{topic}}"},
		}, 0, 0},
		{"Freshness of each topic", "Age of the oldest record that is not stored, of the worst partition of each topic; 0 while a topic is idle.", lines, half, "s", []query{
			{`max by (topic) (waterwheel_freshness_seconds{%topic%})`, "{{topic}}"},
		}, 0, 0},
		{"Lag of each partition", "The ten partitions with the most records that are not committed yet: one alone that grows has a busy key or has stopped.", lines, half, "short", []query{
			{`topk(10, max by (topic, partition) (waterwheel_lag_records{%topic%}))`, "{{topic}}/{{partition}}"},
		}, 0, 0},
		{"Dead letters each minute", "Records that went to the dead-letter topic, by reason: the runbook has an entry for each.", stacked, half, "short", []query{
			{`60 * sum by (reason) (rate(waterwheel_letters_total{%topic%}[$__rate_interval]))`, "{{reason}}"},
		}, 0, 0},
	}},
	{"Flushes and writes", []panel{
		{"Duration of a flush", "From the cut of a flush until all its writes are acknowledged: it grows when MongoDB is slow.", lines, third, "s", []query{
			{`histogram_quantile(0.5, sum by (le) (rate(waterwheel_flush_duration_seconds_bucket{%job%}[$__rate_interval])))`, "median"},
			{`histogram_quantile(0.99, sum by (le) (rate(waterwheel_flush_duration_seconds_bucket{%job%}[$__rate_interval])))`, "99 %"},
		}, 0, 0},
		{"Flushes by cause", "What made flushes begin; many by memory or bytes mean that MongoDB is slower than the stream.", stacked, third, "ops", []query{
			{`sum by (trigger) (rate(waterwheel_flushes_total{%topic%}[$__rate_interval]))`, "{{trigger}}"},
		}, 0, 0},
		{"Measurements a write", "Measurements added by one write, on average: the more, the cheaper for MongoDB.", lines, third, "short", []query{
			{`sum(rate(waterwheel_measurements_per_write_sum{%job%}[$__rate_interval])) / sum(rate(waterwheel_measurements_per_write_count{%job%}[$__rate_interval]))`, "measurements"},
		}, 0, 0},
		{"Writes by outcome", "What became of bucket writes: conflicts say that something else writes the buckets.", stacked, third, "wps", []query{
			{`sum by (kind, outcome) (rate(waterwheel_writes_total{%topic%}[$__rate_interval]))`, "{{kind}} {{outcome}}"},
		}, 0, 0},
		{"New buckets, and why the former ones ended", "Buckets opened, closed and archived each second, by reason: docs/metrics.md says which reason to mend and how.", lines, third, "ops", []query{
			{`sum(rate(waterwheel_buckets_opened_total{%topic%}[$__rate_interval]))`, "opened"},
			{`sum by (reason) (rate(waterwheel_buckets_closed_total{%topic%}[$__rate_interval]))`, "closed: {{reason}}"},
			{`sum by (reason) (rate(waterwheel_buckets_archived_total{%topic%}[$__rate_interval]))`, "archived: {{reason}}"},
		}, 0, 0},
		{"Fill of buckets", "Measurements in a bucket, as a share of BUCKET_MAX_COUNT, by consumer.", lines, third, "percentunit", []query{
			{`waterwheel_bucket_fill_ratio{%job%}`, "{{instance}}"},
		}, 0, 0},
	}},
	{"MongoDB", []panel{
		{"Duration of commands", "Time from sending a command to MongoDB to its answer, of 99 in 100 commands.", lines, third, "s", []query{
			{`histogram_quantile(0.99, sum by (le, command) (rate(waterwheel_mongodb_command_duration_seconds_bucket{%job%}[$__rate_interval])))`, "{{command}}"},
		}, 0, 0},
		{"Attempts to write", "Single attempts by what the answer said: unknown ones are resolved by reading back.", stacked, third, "wps", []query{
			{`sum by (kind, result) (rate(waterwheel_mongodb_write_attempts_total{%topic%}[$__rate_interval]))`, "{{kind}} {{result}}"},
		}, 0, 0},
		{"Sent at a time", "Bytes of writes that are sent at a time, at most: a limit that falls shows that MongoDB is slow.", lines, third, "bytes", []query{
			{`min by (topic) (waterwheel_send_limit_bytes{%topic%})`, "{{topic}}"},
		}, 0, 0},
		{"Outages", "Share of the time in which a server did not do its part, as the worst consumer saw it.", lines, third, "percentunit", []query{
			{`max by (dependency) (rate(waterwheel_outage_seconds_total{%job%}[$__rate_interval]))`, "{{dependency}}"},
		}, 0, 0},
		{"Attempts that are repeated", "Attempts that failed and are repeated, by what they were for.", stacked, third, "ops", []query{
			{`sum by (operation) (rate(waterwheel_retries_total{%topic%}[$__rate_interval]))`, "{{operation}}"},
		}, 0, 0},
		{"Writes of unknown outcome", "Writes that were sent and whose outcome is not known yet; messages held back because the lease had lapsed.", lines, third, "short", []query{
			{`sum(waterwheel_unknown_writes{%job%})`, "unknown"},
			{`sum(increase(waterwheel_mongodb_writes_stopped_total{%job%}[$__rate_interval]))`, "held back"},
		}, 0, 0},
	}},
	{"Kafka and the group", []panel{
		{"Records read", "Records read each second, by topic, and measurements among them that were stored before.", lines, third, "cps", []query{
			{`sum by (topic) (rate(waterwheel_records_read_total{%topic%}[$__rate_interval]))`, "{{topic}}"},
			{`sum by (topic) (rate(waterwheel_measurements_skipped_total{%topic%, reason="replayed"}[$__rate_interval]))`, "{{topic}}, stored before"},
		}, 0, 0},
		{"Failed fetches", "Fetches that brought nothing, by Kafka's error code.", stacked, third, "ops", []query{
			{`sum by (code) (rate(waterwheel_fetch_errors_total{%topic%}[$__rate_interval])) or label_replace(vector(0), "code", "none", "", "")`, "{{code}}"},
		}, 0, 0},
		{"Lost to retention", "Records that retention deleted before they were read.", lines, third, "short", []query{
			{`sum by (topic) (increase(waterwheel_records_expired_total{%topic%}[$__rate_interval]))`, "{{topic}}"},
		}, 0, 0},
		{"Partitions of each consumer", "Partitions that are assigned to each consumer: the stack is as high as the topics have partitions.", stacked, third, "short", []query{
			{`sum by (instance) (waterwheel_assigned_partitions{%job%})`, "{{instance}}"},
		}, 0, 0},
		{"Rebalances", "Generations of the group that ended, by cause: a steady number means that members come and go.", stacked, third, "short", []query{
			{`sum by (kind) (increase(waterwheel_rebalances_total{%job%}[$__rate_interval]))`, "{{kind}}"},
		}, 0, 0},
		{"Claims", "Partitions taken over, by how: cold ones read what is stored, lost ones were claimed by another consumer.", stacked, third, "short", []query{
			{`sum by (outcome) (increase(waterwheel_claims_total{%topic%}[$__rate_interval]))`, "{{outcome}}"},
		}, 0, 0},
		{"Commits", "Requests that commit offsets, by outcome.", stacked, third, "ops", []query{
			{`sum by (outcome) (rate(waterwheel_commits_total{%job%}[$__rate_interval]))`, "{{outcome}}"},
		}, 0, 0},
		{"Lapsed leases", "Share of the time in which a consumer might not write, because commits were not answered in time.", lines, third, "percentunit", []query{
			{`rate(waterwheel_lease_lapsed_seconds_total{%job%}[$__rate_interval])`, "{{instance}}"},
		}, 0, 0},
		{"Waits before a claim", "How much of the wait for the writes of a former owner is left, of the partition that waits longest.", lines, third, "s", []query{
			{`max by (topic) (waterwheel_claim_wait_seconds{%topic%})`, "{{topic}}"},
		}, 0, 0},
	}},
	{"Memory", []panel{
		{"Memory of the budget", "What takes the memory that counts towards the budget, and the budget of all consumers together.", stacked, half, "bytes", []query{
			{`sum by (kind) (waterwheel_memory_bytes{%job%})`, "{{kind}}"},
			{`sum(waterwheel_memory_limit_bytes{%job%})`, "budget"},
		}, 0, 0},
		{"Memory and processor time of the process", "Resident memory of each consumer, and processors that it keeps busy.", lines, half, "short", []query{
			{`process_resident_memory_bytes{%job%} / 1048576`, "{{instance}}: MiB"},
			{`rate(process_cpu_seconds_total{%job%}[$__rate_interval])`, "{{instance}}: processors"},
		}, 0, 0},
		{"Series and buckets in memory", "Series, open buckets and archived buckets: series that grow without end have a value in meta that varies with each event.", lines, half, "short", []query{
			{`sum(waterwheel_series{%job%})`, "series"},
			{`sum(waterwheel_open_buckets{%job%})`, "open buckets"},
			{`sum(waterwheel_archived_buckets{%job%})`, "archived buckets"},
		}, 0, 0},
		{"Paused partitions", "Partitions that are not fetched because too much waits in memory: minutes of it fire an alert.", lines, half, "short", []query{
			{`sum by (topic) (waterwheel_fetch_paused{%topic%})`, "{{topic}}"},
		}, 0, 0},
	}},
	{"Segments", []panel{
		{"Into segments, and from there into buckets", "Measurements written into segments each second, and measurements of segments put into buckets.", lines, third, "cps", []query{
			{`sum(rate(waterwheel_segment_measurements_total{%topic%}[$__rate_interval]))`, "into segments"},
			{`sum(rate(waterwheel_measurements_compacted_total{%topic%}[$__rate_interval]))`, "into buckets"},
		}, 0, 0},
		{"Age of open segments", "Age of the oldest segment that has not ended: well above COMPACT_INTERVAL, compaction does not keep up.", lines, third, "s", []query{
			{`max by (topic) (waterwheel_oldest_open_segment_seconds{%topic%})`, "{{topic}}"},
		}, 0, 0},
		{"Measurements in open segments", "Measurements in segments that have not ended, by topic.", lines, third, "short", []query{
			{`sum by (topic) (waterwheel_open_segment_measurements{%topic%})`, "{{topic}}"},
		}, 0, 0},
		{"Compactions", "Compactions of segments into buckets that have finished.", lines, third, "short", []query{
			{`sum by (topic) (increase(waterwheel_compactions_total{%topic%, outcome="finished"}[$__rate_interval]))`, "{{topic}}"},
		}, 0, 0},
		{"Compactions rolled back", "Compactions that will be done again, by reason: they should be rare.", stacked, third, "short", []query{
			{`sum by (reason) (increase(waterwheel_compactions_total{%topic%, outcome="rolled_back"}[$__rate_interval]))`, "{{reason}}"},
		}, 0, 0},
		{"Duration of a compaction", "From the freezing of segments until they have ended.", lines, third, "s", []query{
			{`histogram_quantile(0.99, sum by (le) (rate(waterwheel_compaction_duration_seconds_bucket{%job%}[$__rate_interval])))`, "99 %"},
		}, 0, 0},
	}},
}

// events are the annotations, which are drawn into every panel.
var events = []struct{ name, color, expression, text string }{
	{"Rebalances", "blue", `sum by (instance, kind) (increase(waterwheel_rebalances_total{%job%, kind=~"rebalance|topics|lost"}[1m])) > 0`, "{{instance}}: {{kind}}"},
	{"Outages", "red", `sum by (instance, dependency) (increase(waterwheel_outage_seconds_total{%job%}[1m])) > 0`, "{{instance}}: {{dependency}}"},
}
