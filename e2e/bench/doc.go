// Package bench measures how fast measurements go from Kafka to MongoDB. The whole program runs as a process of its own. Other
// ways to do the same run on the same servers, in turns. Command bench in cmd/bench is its command line.
//
// A Load describes the content of a topic, and Fill writes it. Bench.Drain has one peer store the topic in a database of its own.
// It returns the time it took, and a count of the stored measurements. Waterwheel is the built program. Ceiling is a loop that
// only inserts the buckets that Waterwheel has stored. Discard is the program with a proxy that answers the writes of buckets
// (package discard). Naive is a consumer that inserts 1,000 documents at a time.
//
// The files:
//
//	load.go, event.go, fill.go    the content of a topic, its events, writing them
//	drain.go, result.go           a peer's turn, and its result
//	waterwheel.go, profile.go     the program, with the server and with the proxy; its processor profiles
//	child.go                      peers that are child processes of this program: naive.go, ceiling.go
//	follow.go                     the naive consumer, keeping up with a topic
//	usage.go                      processor time and memory of processes, including the servers
//	stored.go                     whether everything is stored, and its size
//	rounds.go, machine.go         peers in turns; the machine and the servers
//	report.go, markdown.go, write.go  the report
package bench
