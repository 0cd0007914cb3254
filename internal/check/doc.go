// Package check implements "waterwheel check". It checks whether a consumer with these settings, this Kafka and this MongoDB
// reads and stores every record once. It says how to correct what is wrong. It changes nothing. It evaluates a group's offsets by
// the rules of package claim, as run does. So check reports what run will do.
//
//	check.go    Options, Look: everything, in the order in which a person wants to know it
//	finding.go  Finding, Findings: the findings, and how much they matter
//	topic.go    topics: partitions, clocks, configuration
//	letters.go  dead-letter topics
//	mongodb.go  the server, its clock, the rights of the user
//	index.go    indexes that META_INDEXES asks for, and that a filter needs
//	group.go    which groups have claimed the partitions, the members of the group, and where each partition would begin
//	sample.go   Sample: what the newest records of a topic would become
//	feed.go     Feed: what events from standard input would become, also those that are records with keys
//	asked.go    what the schema registry says of a sample's schemas
//	judge.go    what a sample says of the settings in effect
//	advise.go   when a sample says more than that they fit
//	variety.go  how many distinct values the fields of meta have
//
// Advice about settings comes from a sample in steps: from evidence to candidates, and from candidates to a proposal or a
// question:
//
//	evidence.go  statistics of each field, over all records; texts.go: of texts; distinct.go: how often values repeat
//	encodings.go how records are encoded, and how many cannot be read
//	staged.go    events in texts and lists, whose evidence is taken again
//	view.go      the evidence below one object; shapes.go: known forms of events; names.go: what names say
//	timefield.go which field is the time
//	identity.go  what names the series; keys.go: what the keys say of it; unnamed.go: when no field name tells
//	tally.go     records to try settings with, and the outcome
//	propose.go   Advice, Proposal: from candidates to options, or to a question; settings.go: options as settings
//	loses.go     what settings would lose; values.go: stored values that cannot be used
package check
