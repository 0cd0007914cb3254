// Command consumer reads measurement events from Kafka and keeps them as buckets in MongoDB, every record exactly once.
//
// It is the process of the command run: what it consists of, and how it begins and ends. The command line is package cli.
//
//	main.go           signals, and the command line
//	run.go            run, from top to bottom
//	adapters.go       what workers read and write, and what the group decides
//	runtopics.go      topics that match KAFKA_TOPICS and come while run goes on
//	runcollection.go  options of a collection that change
//	supervisor.go     telling systemd how the process is; how much of SHUTDOWN_TIMEOUT closing has
package main
