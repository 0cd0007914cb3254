// Package kafka asks a Kafka cluster: which topics, partitions and groups there are, and which records are in their logs.
//
// Routing to leaders and coordinators is kafka-go's Transport, over connections of the package wire: they are encrypted and
// logged in when kafka-go gets them, and hand an answer on only when what it announces has come. Where kafka-go's own
// requests are too old or hide what the broker answered, this package sends its own through that Transport. Its readers are
// not used at all: they give out transaction markers and aborted records, and check no checksum.
//
// A Client is safe for concurrent use. What an error means is decided in one place, Classify.
//
//	client.go         Client: opens, closes, sends one request
//	options.go        its settings
//	log.go            Log: one partition under one topic id, read piece by piece; errors as who reads it acts on them
//	fetch.go          the request behind it
//	rest.go           partitions that have nothing new wait together
//	answers.go        the memory that its answers are read into, again and again
//	scan.go           Scanner: reads topics from one offset to another, patiently
//	offsets.go        where a log begins and ends, and which offset is of a time
//	transactions.go   the transaction that a partition waits for
//	metadata.go       topics and their partitions
//	configuration.go  what a topic is configured to
//	rights.go         what this user may do, and whether a topic could be created
//	groups.go         consumer groups: their members, and what they have committed
//	consumergroup.go  members of groups whose assignments the broker makes
//	codes.go          Kafka's error codes: what to do about each, and the advice
//	errors.go         Error, and Classify
//	writer.go         writing records, one request at a time
//	retry.go          waiting between attempts
//	probe.go          the first connection, and which setting is wrong when it fails
//	reach.go          whether any broker can be reached
//	security.go       how connections are protected; tlsfiles.go their files, login.go their logins, oauth.go tokens for these
//	metrics.go        what fetching counts
//	clock_*.go        a clock that does not stand still while the machine is suspended
package kafka
