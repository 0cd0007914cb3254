// Package connect turns the settings into the options of each package, and opens both ends: Kafka and MongoDB. The commands and the
// process of run use it.
//
//	translate.go                settings to the options of each package
//	connect.go, metaindexes.go  both ends, opened and set up; the indexes of META_INDEXES
//	patience.go                 waiting for servers that are not there yet
//	topiclog.go                 topics, read from outside any group
package connect
