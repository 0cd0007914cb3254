// Command consumer reads measurement events from Kafka and stores them as buckets in MongoDB, every record exactly once.
//
// It implements the process of the command run: its parts, its start and its shutdown. Package cli implements the command line.
//
//	main.go      signals, the command line, systemd; how much of SHUTDOWN_TIMEOUT closing has
//	run.go       run, from top to bottom
//	adapters.go  what workers read and write, and the group's decisions
//	watch.go     what changes while run is active: topics that match KAFKA_TOPICS, options of a collection
package main
