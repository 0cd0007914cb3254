// Package chaos runs consumers as real processes against a real Kafka cluster and a MongoDB, and disturbs them every few seconds.
// Processes are killed, stopped and continued, join and leave. Brokers are killed and restarted. Links to the database or to
// Kafka are cut, refused, slowed down or held, or lose the answers. The topic grows, and the group is reset to offsets it has
// passed. Chunks of a sharded cluster move, and its primaries step down. Operators edit metas and repair. At the end a checker that
// shares no code with the consumer reports where every measurement is stored. A naive consumer goes through the same disturbances
// for comparison.
//
//	options.go  what to do; run.go: a run from the servers to the verdict
//	load.go     the producer
//	member.go   a consumer with links of its own
//	actions.go  disturbances of members, their links, and by operators
//	servers.go  disturbances of brokers, of the database and of a sharded cluster; topic.go: of the topic and the group
//	watch.go    looks meanwhile: at what is shown, at the database's pace, at rollups
//	judge.go    the result
package chaos
