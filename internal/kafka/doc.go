// Package kafka reads topics, partitions, groups and records of a Kafka cluster, and writes records.
//
// kafka-go's Transport routes requests to leaders and coordinators. Its connections come from package wire, encrypted and logged
// in. They pass an answer on only when all announced bytes have come. Where kafka-go's own requests are too old or hide the
// broker's answer, this package sends its own requests through that Transport. It does not use kafka-go's readers, because these
// return transaction markers and aborted records and check no checksum.
//
// A Client is safe for concurrent use. Classify alone decides what an error means.
//
//	client.go    Client: its settings; opens, closes, sends one request; Writer: writes records, one request at a time
//	errors.go    Error, Classify: what Kafka's error codes mean, the advice, and their counters; waiting between attempts
//	log.go       Log: reads one partition under one topic id, piece by piece; Scanner: reads topics between two offsets, with retries
//	fetch.go     the fetch request of a Log, and reusable memory for the answers; partitions without new records wait together
//	offsets.go   where a log begins and ends, the offset of a time, and the transaction that a partition waits for
//	metadata.go  topics, their partitions and their configuration; what this user may do
//	groups.go    consumer groups: their members, also where the broker makes the assignments, and their committed offsets
//	probe.go     the first connection, and which setting is wrong when it fails; whether any broker can be reached
//	security.go  how connections are protected, and the files of TLS
//	login.go     how connections log in, and tokens for OAUTHBEARER
//	clock_*.go   a clock that does not stand still while the machine is suspended
package kafka
