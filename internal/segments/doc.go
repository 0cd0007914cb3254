// Package segments is about the documents that hold the measurements of many series until they are compacted into buckets. It has
// only tests: a model of the protocol (docs/segments.md), run with random faults.
//
//	model_test.go       the tests, race_test.go: fewer of them; guards_test.go: the rules that a run may do without
//	world_test.go       time, processes, commands on their way, what goes wrong; check_test.go: what must hold at the end
//	database_test.go    a replica set whose majority lags
//	consumer_test.go    an owner: its claim, D, flushes, the commit of offsets
//	compact_test.go     its compactions; recover_test.go: what becomes of those that stopped; sweep_test.go: the end of segments
//	readers_test.go     queries; operators_test.go: edits of whole series, expiry
package segments
