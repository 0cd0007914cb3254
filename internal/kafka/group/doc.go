// Package group is the membership in a consumer group, and the lease that lets a generation write: kafka-go's own consumer
// group forgets who it is when a coordinator dies.
//
//	group.go         Group: a member; Run joins and rejoins until it is stopped; Handler: who works on the partitions
//	join.go          from outside the group into a generation: JoinGroup, the leader's assignment, SyncGroup
//	live.go          the life of a generation: heartbeats, and what ends it
//	generation.go    Generation: what is assigned; its commits
//	lease.go         whether anything may be written on the strength of a generation
//	rejoin.go        from one generation into the next, while the handler goes on
//	revoke.go        the end of a generation: the handler finishes within the time that is left
//	watch.go         topics that grew or were created again
//	foreign.go       members of other programs, and assignments that another program made
//	sticky.go        who gets which partitions
//	ownership.go     what members tell each other: what each owns, and what an assignment was made from
//	subscription.go  the encoding around that, which Kafka's own tools read
//	coordinator.go   the requests to the coordinator
//	messages.go      those that kafka-go does not have
//	outage.go        asking until an answer comes, with few log lines about it
//	metrics.go       what the membership counts
package group
