// Package connect turns the settings into the options of each package, and connects to Kafka and MongoDB. The commands and the
// process of run use it.
//
//	translate.go  settings to the options of each package
//	registry.go   the schema registry
//	connect.go    Kafka and MongoDB, connected, with the indexes of META_INDEXES; topics, read from outside any group
//	setup.go      the collections and dead-letter topics of the topics, and which topics are not read
//	lost.go       collections that have lost their content
//	topics.go     topics that match patterns of KAFKA_TOPICS
//	patience.go   waiting for servers that do not answer yet
package connect
