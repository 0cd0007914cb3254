package bench

import (
	"time"

	"waterwheel/e2e/bench/discard"
)

// Peer is a program that carries measurements, or a part of it that is measured by itself.
type Peer string

// The peers.
const (
	// Waterwheel is the program, with its usual settings.
	Waterwheel Peer = "waterwheel"
	// Naive reads, inserts 1,000 documents at a time, and commits: into a time series where the server has them.
	Naive Peer = "naive"
	// Ceiling inserts the buckets that Waterwheel has stored, in calls of the same size and as many at a time.
	Ceiling Peer = "ceiling"
	// Discard is Waterwheel behind a proxy that answers the writes of buckets and keeps nothing: the client alone.
	Discard Peer = "discard"
)

// Peers are all of them, in the order of reports.
var Peers = []Peer{Waterwheel, Ceiling, Discard, Naive}

// Result is what one peer has done with one topic.
type Result struct {
	Peer  Peer `json:"peer"`
	Round int  `json:"round"`
	// Measurements that were to be stored.
	Measurements int64 `json:"measurements"`
	// Wall is from the start of reading until the last offset is committed (ceiling: until the last call is answered).
	Wall time.Duration `json:"wall_ns"`
	// CPU is the processor time, user and system, of the peer's own process: of waterwheel from its start to its end, of the
	// others while Wall lasts.
	CPU time.Duration `json:"cpu_ns"`
	// ServerCPU and KafkaCPU are the processor times of MongoDB's and Kafka's processes meanwhile. Nil means that they are not on
	// this machine, or not processes of their own.
	ServerCPU *time.Duration `json:"server_cpu_ns,omitempty"`
	KafkaCPU  *time.Duration `json:"kafka_cpu_ns,omitempty"`
	// MaxResident is the most memory, in bytes, that the process had resident. Zero means that the system does not tell.
	MaxResident int64 `json:"max_resident_bytes"`
	// Stored is the number of measurements found stored (of Discard: that its consumer counts as stored), Missing that of those that are not, Doubled of those stored more
	// than once.
	Stored  int64 `json:"stored"`
	Missing int64 `json:"missing"`
	Doubled int64 `json:"doubled"`
	Size    Size  `json:"size"`
	// Note is what a reader of the figures has to know: into what kind of collection the peer wrote.
	Note string `json:"note,omitempty"`
	// Discarded is what the proxy of Discard has answered.
	Discarded *discard.Counts `json:"discarded,omitempty"`
}

// Size is what the database says of the collection that a peer wrote into.
type Size struct {
	// Documents in it: buckets or measurements.
	Documents int64 `json:"documents"`
	// Data, Disk and Indexes are in bytes. Zero means that the server does not tell.
	Data    int64 `json:"data_bytes"`
	Disk    int64 `json:"disk_bytes"`
	Indexes int64 `json:"index_bytes"`
}

// Rate is measurements a second.
func (r Result) Rate() float64 { return float64(r.Measurements) / r.Wall.Seconds() }

// RatePerCore is measurements for each second of the process' own processor time.
func (r Result) RatePerCore() float64 { return float64(r.Measurements) / r.CPU.Seconds() }

// Complete reports whether each measurement is stored once.
func (r Result) Complete() bool {
	return r.Stored == r.Measurements && r.Missing == 0 && r.Doubled == 0
}
