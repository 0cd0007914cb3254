// Package check is what "waterwheel check" finds: whether Kafka and MongoDB are such that a consumer with these settings reads and
// stores every record once, with the way out of what is wrong. It changes nothing. What a group's offsets mean is asked of the
// rules of package claim, as run does, so that check says what run will do.
//
//	check.go    Options, Look: everything, in the order in which a person wants to know it
//	finding.go  Finding, Findings: the findings, and how much they matter
//	topic.go    topics: partitions, clocks, configuration
//	letters.go  dead-letter topics
//	mongodb.go  the server, its clock, what the user may do
//	index.go    indexes that META_INDEXES asks for, and that a filter needs
//	claims.go   whose claims stand on the partitions
//	group.go    the members of the group, and where each partition would begin
//	sample.go   Sample: what the newest records of a topic would become
//	feed.go     Feed: what events from standard input would become
//	feedlog.go  events from standard input that are records with keys
//	judge.go    what a sample says of the settings in effect
//	advise.go   when a sample says more than that they fit
//	variety.go  how many different values the fields of meta have
//
// What a sample says about settings goes from evidence to candidates, and from candidates to a proposal or a question:
//
//	evidence.go  what was seen of each field, in all records; texts.go: of texts; distinct.go: how often values come back
//	encodings.go how records are encoded, and how many cannot be read
//	staged.go    events in texts and lists, whose evidence is taken again
//	view.go      the evidence below one object; shapes.go: forms of events that are known; names.go: what names say
//	timefield.go which field is the time
//	identity.go  what names the series; keys.go: what the keys say of it; unnamed.go: where no field is called so
//	kept.go      records to try settings with; tally.go: what becomes of them
//	propose.go   Advice, Proposal: from candidates to options, or to a question; settings.go: options as settings
//	loses.go     what settings would lose; values.go: values that are stored and cannot be used
package check
