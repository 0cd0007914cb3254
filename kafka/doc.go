// Package kafka is Kafka on the way in: group membership and its lease, assignments, fetching, record batches, offsets and topic ids.
//
// Routing to leaders and coordinators is kafka-go's Transport, over connections of this package: they are encrypted and
// logged in when kafka-go gets them, and hand an answer on only when what it announces has come. Where kafka-go's own
// requests are too old or hide what the broker answered, this package sends its own through that Transport: Fetch by
// topic id, Metadata with topic ids, Heartbeat and LeaveGroup. Its readers and its consumer group are not used at all:
// they give out transaction markers and aborted records, check no checksum, and forget who they are when a coordinator dies.
//
// A Client asks, and is safe for concurrent use. A Group owns the membership; one goroutine runs it. What an error
// means is decided in one place, Classify.
package kafka
