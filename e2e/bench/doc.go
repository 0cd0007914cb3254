// Package bench measures how fast measurements go from Kafka to MongoDB: the whole program as a process of its own, beside
// other ways to do the same on the same servers, in turns. Command bench in cmd/bench is its command line.
//
// A Load says what a topic holds; Fill writes it. Bench.Drain has one peer carry the topic into a database of its own, and
// returns what it took and a count of what is stored. The peers are Waterwheel, the built program; Ceiling, a loop that
// inserts the buckets which that has stored, and does nothing else; Discard, the program in front of a proxy that answers the writes of buckets
// (package discard); Naive, a consumer that inserts 1,000 documents at a time.
//
// The files:
//
//	load.go, event.go, fill.go    what a topic holds, its events, writing them
//	drain.go, result.go           a peer's turn, and what comes of it
//	waterwheel.go, profile.go     the program, before the server and before the proxy; where its processor time goes
//	child.go                      peers that are processes of this program: naive.go, ceiling.go
//	follow.go                     the naive consumer, keeping up with a topic
//	usage.go                      processor time and memory of processes, those of the servers too
//	stored.go                     whether all is stored, and what it takes
//	rounds.go, machine.go         peers in turns; where the figures are taken
//	report.go, markdown.go, write.go  what comes of all
package bench
