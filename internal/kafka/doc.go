// Package kafka reads topics, partitions, groups and records of a Kafka cluster, and writes records.
//
// kafka-go's Transport routes requests to leaders and coordinators. Its connections come from package wire, encrypted and logged
// in. They pass an answer on only when all announced bytes have come. Where kafka-go's own requests are too old or hide the
// broker's answer, this package sends its own requests through that Transport. It does not use kafka-go's readers, because these
// return transaction markers and aborted records and check no checksum.
//
// A Client is safe for concurrent use. Classify alone decides what an error means.
//
//	client.go         Client: its settings; opens, closes, sends one request
//	log.go            Log: reads one partition under one topic id, piece by piece, with errors for the partition's reader
//	fetch.go          the fetch request of a Log, and reusable memory for the answers
//	rest.go           partitions without new records wait together
//	scan.go           Scanner: reads topics from one offset to another, with retries
//	offsets.go        where a log begins and ends, and the offset of a time
//	transactions.go   the transaction that a partition waits for
//	metadata.go       topics, their partitions and their configuration
//	rights.go         what this user may do, and whether a topic could be created
//	groups.go         consumer groups: their members, also where the broker makes the assignments, and their committed offsets
//	errors.go         Error, and Classify; Kafka's error codes: how to react to each, and the advice
//	writer.go         writing records, one request at a time
//	retry.go          waiting between attempts
//	probe.go          the first connection, and which setting is wrong when it fails; whether any broker can be reached
//	security.go       how connections are protected; tlsfiles.go their files, login.go their logins, oauth.go tokens for these
//	metrics.go        counters of failed fetches
//	clock_*.go        a clock that does not stand still while the machine is suspended
package kafka
