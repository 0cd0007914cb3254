// Package check is what "consumer check" finds: whether Kafka and MongoDB are such that a consumer with these settings reads and
// stores every record once, with the way out of what is wrong. It changes nothing but for one document, written for a trial and
// removed again. What a group's offsets mean is asked of the rules of package claim, as run does, so that check says what run
// will do.
//
//	check.go    Options, Look: everything, in the order in which a person wants to know it
//	finding.go  Finding, Findings: what was found, and how much it matters
//	topic.go    topics: partitions, clocks, configuration
//	letters.go  dead-letter topics
//	mongodb.go  the server, its clock, a trial of what the user may do
//	index.go    indexes that META_INDEXES asks for, and that a filter needs
//	claims.go   whose claims stand on the partitions
//	group.go    the members of the group, and where each partition would begin
//	sample.go   Sample: what the newest records of a topic would become
//	feed.go     Feed: what events from standard input would become
//	judge.go    what a sample says of the settings
//	propose.go  Propose: settings that suit a sample better; shapes.go: forms of events that are known
//	readable.go what of a sample can be read; leaves.go: its fields; timefield.go, metafields.go: which are time and meta
//	variety.go  how many different values the fields of meta have
package check
