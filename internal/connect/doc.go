// Package connect turns the settings into the options of each package, and connects to Kafka and MongoDB. The commands and the
// process of run use it.
//
//	translate.go  settings to the options of each package; the schema registry
//	connect.go    Kafka and MongoDB, connected, with the indexes of META_INDEXES; topics, read from outside any group
//	setup.go      the topics that match patterns, their collections and dead-letter topics; collections that have lost their content
//	patience.go   waiting for servers that do not answer yet
package connect
