// Package group implements the membership in a consumer group, and the lease that allows a generation to write. kafka-go's own
// consumer group loses its member id when a coordinator dies.
//
// # Why only commits renew the lease
//
// Heartbeats prove nothing. In an experiment both followers of a coordinator were stopped. The coordinator still answered
// heartbeats with 0 within milliseconds, and a repeated SyncGroup from memory. It answers a commit with 0 only when all in-sync
// replicas have appended it.
//
// Even that answer may be wrong once. When a coordinator that was cut off learns that it is deposed, it may answer pending
// commits with 0, although its log is truncated (KAFKA-20634). On three brokers of 4.3.0 this happened with every pending commit
// if other work delayed the unloading of the coordinator. It happened 3 of 3 times in the classic protocol and 5 of 5 times in the
// new one, but 0 of 12 times with an idle coordinator. Such a coordinator accepts no new commit, so the next accepted
// commit proves the one before. Two false answers in a row need two coordinators deposed one after the other, both reachable and
// both unaware.
//
// # From one generation to the next
//
// A member that has sent JoinGroup goes on under its current generation. The group keeps that generation until every member has
// sent JoinGroup. Until then the coordinator accepts the member's commits, and an answer 0 proves what it always proves. The
// answer to JoinGroup ends the generation. From then on ILLEGAL_GENERATION is expected and ends nothing. The rest of the lease
// holds until the assignment arrives.
//
// Partitions that stay need no new claim if the new generation follows the old one (Group.follows), because no other member can
// have had them in between. Partitions that leave are handed over under the lease of the old generation, which nothing renews any
// more. The next owner counts its wait from a moment when that generation was over. It does not see the commits that this member
// makes for its other partitions. While a hand-over lasts, the guard of the connections checks both leases, because a connection
// serves all partitions. Commits of a hand-over go through the new generation, because the coordinator accepts commits from any
// of its members. An answered commit is not sent again. The release may have been executed although its answer was lost, and the
// next owner may have committed since.
//
// No member learns of a generation whose leader dies between JoinGroup's answer and its own SyncGroup. The next generation begins
// when the leader's session is over. A member that dies while its JoinGroup waits still becomes a member of the next generation.
// Its partitions then wait for a second session to end.
//
// # Why not the group protocol of KIP-848
//
// Since Kafka 4.0 brokers can assign partitions themselves (group.protocol=consumer). On brokers of 4.3.0 an answer 0 to a commit
// proved less there than in the classic protocol:
//
//   - The coordinator accepts a commit for any partition while the member's epoch is current. It does not check whether the
//     member still has that partition. The answer proves membership in an epoch, not ownership.
//   - A partition can change its owner within one epoch of the former owner. It leaves a member when a heartbeat does not list
//     it. A heartbeat that was sent before the member got the partition, and is executed late, does not list it. If the member
//     must still give back another partition, the epoch stays. Then the commits of both owners are answered with 0. This needs a
//     heartbeat delayed for seconds and three rebalances meanwhile. A real broker did it.
//   - The broker sets the session: 45 s by default, which is also the least that a group may set. A static member that was
//     killed is refused (UNRELEASED_INSTANCE_ID) until its session is over. The classic protocol puts it in its place at once.
//   - The broker converts no group whose members use user data in their assignments, as ours do. So there is no way from one
//     protocol to the other while the group works.
//
// A lease per partition would close the second gap, at the price of the third. Heartbeats would bound such a lease, which may not
// outlast the last heartbeat whose answer assigns the partition.
//
// # Files
//
//	group.go         Group: a member; Run joins and rejoins until it is stopped; Handler: works on the partitions; the counters
//	join.go          into a generation: JoinGroup, the leader's assignment, SyncGroup; from the last one, while the handler goes on
//	live.go          the life of a generation: heartbeats, and what ends it; the handler finishes within the time that is left
//	generation.go    Generation: its assignment, its commits; lease: whether it may write
//	members.go       what the coordinator and the members tell of all members; members of other programs
//	sticky.go        who gets which partitions
//	ownership.go     data between members: what each owns, what an assignment was made from; the encoding around these
//	                 data, which Kafka's own tools read
//	coordinator.go   the requests to the coordinator, also those that kafka-go lacks; retries until an answer comes
package group
