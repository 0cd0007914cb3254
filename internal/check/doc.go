// Package check implements "waterwheel check". It checks whether a consumer with these settings, this Kafka and this MongoDB
// reads and stores every record once. It says how to correct what is wrong. It changes nothing. It evaluates a group's offsets by
// the rules of package claim, as run does. So check reports what run will do.
//
//	check.go    Options, Look: everything, in the order in which a person wants to know it; Findings, and how much they matter
//	topic.go    topics: partitions, clocks, configuration; dead-letter topics
//	mongodb.go  the server, its clock, the rights of the user; the indexes that META_INDEXES and a filter need
//	group.go    which groups have claimed the partitions, the members of the group, and where each partition would begin
//	sample.go   Sample: what the newest records of a topic would become
//	feed.go     Feed: what events from standard input would become, also those that are records with keys
//	judge.go    what a sample, and the schema registry, say of the settings in effect; when a sample says more
//
// Advice about settings comes from a sample in steps: from evidence to candidates, and from candidates to a proposal or a
// question:
//
//	evidence.go  statistics of each field, over all records; distinct.go: how often values repeat
//	encodings.go how records and texts are encoded, and how many cannot be read
//	staged.go    events in texts and lists, whose evidence is taken again
//	shapes.go    the evidence below one object, and known forms of events; names.go: what names say
//	timefield.go which field is the time
//	identity.go  what names the series; unnamed.go: when no field name tells, and what the keys say
//	tally.go     records to try settings with, and the outcome
//	propose.go   Advice, Proposal: from candidates to options, and their settings, or to a question
//	loses.go     what settings would lose, also stored values that cannot be used
package check
