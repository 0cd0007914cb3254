// Package harness runs the real program as an operator does. The binary is a child process, configured by environment variables,
// stopped by signals, and observed through its HTTP endpoints. It works with given or embedded servers.
//
//	consumer.go   a process of the program, or of another server; metrics.go: its HTTP endpoints
//	settings.go   settings of the program; free ports
//	servers.go    Kafka and MongoDB, given or embedded; topic.go: topics, producers, calls at a rate
//	cluster.go    a real Kafka of several brokers; broker.go: one of them
//	registry.go   a schema registry
//	main.go       what the tests of a package share
package harness
