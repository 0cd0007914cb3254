package bench

import (
	"time"

	"waterwheel/e2e/bench/discard"
)

// Peer is a program that stores the measurements of a topic, or a part of it that is measured separately.
type Peer string

// These are the peers.
const (
	// Waterwheel is the program, with its usual settings.
	Waterwheel Peer = "waterwheel"
	// Naive reads, inserts 1,000 documents at a time, and commits. It inserts into a time series if the server supports them.
	Naive Peer = "naive"
	// Ceiling inserts the buckets that Waterwheel has stored, in calls of the same size and with the same number of concurrent
	// calls.
	Ceiling Peer = "ceiling"
	// Discard is Waterwheel with a proxy that answers the writes of buckets and keeps nothing. It measures only the client.
	Discard Peer = "discard"
)

// Peers lists all peers, in the order of reports.
var Peers = []Peer{Waterwheel, Ceiling, Discard, Naive}

// Result is the result of one peer's turn with one topic.
type Result struct {
	Peer  Peer `json:"peer"`
	Round int  `json:"round"`
	// Measurements is the number of measurements to store.
	Measurements int64 `json:"measurements"`
	// Wall is the time from the start of reading until the last offset is committed (of Ceiling until the last call is answered).
	Wall time.Duration `json:"wall_ns"`
	// CPU is the processor time of the peer's own process, in user and system mode. Waterwheel's counts from its start to its
	// end, that of the others during Wall.
	CPU time.Duration `json:"cpu_ns"`
	// ServerCPU and KafkaCPU are the processor times of MongoDB's and Kafka's processes during Wall. Nil means that they do not
	// run on this machine, or not as separate processes.
	ServerCPU *time.Duration `json:"server_cpu_ns,omitempty"`
	KafkaCPU  *time.Duration `json:"kafka_cpu_ns,omitempty"`
	// MaxResident is the maximum resident memory of the process in bytes. Zero means unknown.
	MaxResident int64 `json:"max_resident_bytes"`
	// Stored is the number of measurements found in the database. For Discard it is the number that the consumer reports. Missing
	// is the number of all others. Doubled is the number stored more than once.
	Stored  int64 `json:"stored"`
	Missing int64 `json:"missing"`
	Doubled int64 `json:"doubled"`
	Size    Size  `json:"size"`
	// Note says into which kind of collection the peer wrote.
	Note string `json:"note,omitempty"`
	// Discarded counts the writes that the proxy of Discard has answered.
	Discarded *discard.Counts `json:"discarded,omitempty"`
}

// Size is the size of the collection into which a peer wrote, as the server reports it.
type Size struct {
	// Documents is the number of buckets or measurements in it.
	Documents int64 `json:"documents"`
	// Data, Disk and Indexes are in bytes. Zero means unknown.
	Data    int64 `json:"data_bytes"`
	Disk    int64 `json:"disk_bytes"`
	Indexes int64 `json:"index_bytes"`
}

// Rate returns the measurements per second.
func (r Result) Rate() float64 { return float64(r.Measurements) / r.Wall.Seconds() }

// RatePerCore returns the measurements per second of the process's own processor time.
func (r Result) RatePerCore() float64 { return float64(r.Measurements) / r.CPU.Seconds() }

// Complete reports whether each measurement is stored once.
func (r Result) Complete() bool {
	return r.Stored == r.Measurements && r.Missing == 0 && r.Doubled == 0
}
