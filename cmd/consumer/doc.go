// Command consumer reads measurement events from Kafka and stores them as buckets in MongoDB, every record exactly once.
//
// It implements the process of the command run: its parts, its start and its shutdown. Package cli implements the command line.
//
//	main.go           signals, and the command line
//	run.go            run, from top to bottom
//	adapters.go       what workers read and write, and the group's decisions
//	runtopics.go      topics that match KAFKA_TOPICS and are created while run is active
//	runcollection.go  options of a collection that change
//	supervisor.go     reporting the state of the process to systemd; how much of SHUTDOWN_TIMEOUT closing has
package main
