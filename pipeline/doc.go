// Package pipeline carries measurements from a Kafka partition into buckets and commits offsets when all they caused is
// durable. It holds the protocol: when a partition may be claimed, what may be written, what a write's outcome means, and
// which offset may be committed.
//
// A Worker owns one partition. It is a passive state machine: Handle takes an event and the moment it came, and returns
// the actions to carry out. It has no goroutine, no clock and no I/O, so the same events give the same actions, always.
// A runner feeds it and carries its actions out; a Consumer holds the runners of the current generation and commits for
// all of them together.
//
// Kafka, MongoDB and the dead-letter topic are known only through the small interfaces of ports.go.
package pipeline
