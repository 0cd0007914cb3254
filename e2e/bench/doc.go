// Package bench measures how fast measurements go from Kafka to MongoDB. The whole program runs as a process of its own. Other
// ways to do the same run on the same servers, in turns. The measurements are tests with flags, which make bench-e2e runs:
//
//	go test ./bench -run TestMeasure -v -timeout 0 -measure -records 4000000
//	go test ./bench -run TestMeasure -v -timeout 0 -measure -live 100x20,10000x0.2 -minutes 9
//	go test ./bench -run '^$' -bench Reading -timeout 0 -records 3600000 -step 30s    # what queries and totals cost
//	go test ./bench -args -help                                                       # all flags
//
// E2E_KAFKA_BROKERS and E2E_MONGODB_URI name the servers. Embedded servers show whether it works, but not how fast it is.
//
//	bench.go   peers in turns, and their table
//	drain.go   a peer's turn, and whether everything is stored
//	peers.go   ceiling, discard and naive: what waterwheel is compared with
//	load.go    events, and the topic that holds them
//	usage.go   processor time and memory of processes, including the servers
//	live.go    a consumer that keeps up with a fixed rate; probes.go: the age of a measurement when a query finds it
//	table.go   tables, numbers, the machine and the servers
package bench
