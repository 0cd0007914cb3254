// Package group is the membership in a consumer group, and the lease that lets a generation write: kafka-go's own consumer
// group forgets who it is when a coordinator dies.
//
// # Why only commits renew the lease
//
// Heartbeats prove nothing. With both followers of a coordinator stopped, it went on answering heartbeats with 0 within
// milliseconds, and a repeated SyncGroup from memory. A commit is answered with 0 when all in-sync replicas have appended it.
//
// Even that answer may be wrong once. A coordinator that was cut off and deposed may answer commits with 0 that were pending
// when it learned so, although its log is truncated (KAFKA-20634). On three brokers of 4.3.0 this happened with every pending
// commit if the unloading of the coordinator queued behind other work: 3 of 3 in the classic protocol, 5 of 5 in the new one,
// and 0 of 12 with an idle coordinator. Such a coordinator accepts nothing new, so the next accepted commit proves the one before.
// Two false answers in a row need two deposed coordinators, one after the other, which are both reachable and unaware.
//
// # From one generation to the next
//
// A member that has sent JoinGroup goes on under its current generation. That is the group's generation until every member has
// asked for the next one: the coordinator accepts its commits, and an answer 0 proves what it always proves. JoinGroup's answer
// ends it. ILLEGAL_GENERATION is no news then, and ends nothing: the rest of the lease holds until the assignment arrives.
//
// Partitions that stay go on without a new claim if the new generation follows the old one (Group.follows): nobody else can
// have had them in between. Partitions that leave are handed over under the lease of the old generation, which nothing renews
// any more. The next owner counts its wait from a moment when that generation was over, and knows nothing of the commits that
// this member makes for its other partitions. While a hand-over lasts, the guard of the connections holds to both leases,
// because a connection serves all partitions. Commits of a hand-over go through the new generation, which the coordinator
// accepts from any of its members. An answered commit is not sent again: the release may have been executed though its answer
// was lost, and the next owner may have committed since.
//
// Nobody learns of a generation whose leader dies between JoinGroup's answer and its own SyncGroup. The next one begins when
// the leader's session is over. A member that dies while its JoinGroup waits is taken into the next generation all the same:
// its partitions wait for a second session.
//
// Former versions let go of everything before they join, read the partition document once, and wait in full for a claim that
// they find unreleased. While one of them is a member, everybody does as they do. Members say in their subscriptions what they
// can do, and the leader says in its assignments whether all can. In the generation that brings the first such member nothing
// is taken from members that go on, and the next generation follows at once.
//
// # Why not the group protocol of KIP-848
//
// Since Kafka 4.0 brokers can assign partitions themselves (group.protocol=consumer). On brokers of 4.3.0 an answer 0 to a
// commit did not prove there what it proves in the classic protocol:
//
//   - The coordinator accepts a commit for any partition while the member's epoch is current. It does not check whether the member
//     still has that partition. The answer proves membership in an epoch, not ownership.
//   - A partition can change hands within one epoch of its former owner. It leaves a member when a heartbeat does not list it.
//     A heartbeat that was sent before the member got the partition, and is executed late, does not list it. If another
//     partition is still to be given back, the epoch stays. Then both owners' commits are answered 0. This needs a heartbeat
//     held back for seconds and three rebalances meanwhile, and it happened so on a real broker.
//   - The broker sets the session: 45 s by default, which is also the least that a group may set. A static member that was
//     killed is refused (UNRELEASED_INSTANCE_ID) until its session is over. The classic protocol puts it in its place at once.
//   - The broker converts no group whose members carry marks in their assignments, as ours do. So there is no way from one
//     protocol to the other while the group works.
//
// A lease per partition that heartbeats bound would close the second gap, at the price of the third: it may not outlast the last
// heartbeat that was answered with the partition in the assignment.
//
// # Files
//
//	group.go         Group: a member; Run joins and rejoins until it is stopped; Handler: who works on the partitions
//	join.go          from outside the group into a generation: JoinGroup, the leader's assignment, SyncGroup
//	live.go          the life of a generation: heartbeats, and what ends it
//	generation.go    Generation: its assignment, its commits
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
