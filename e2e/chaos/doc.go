// Package chaos runs consumers as real processes against a real Kafka cluster and a MongoDB while every few seconds
// something breaks: processes are killed, stopped and continued, join and leave; brokers are killed and restarted; links
// to the database or to Kafka are cut, refused, slowed down, held or lose the answers; the topic grows; the group is
// reset to offsets it has passed; chunks of a sharded cluster move and its primaries step down. At the end a checker that shares no code with the consumer says what became of every
// measurement. A naive consumer goes through the same for comparison.
package chaos
