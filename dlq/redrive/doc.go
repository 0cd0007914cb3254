// Package redrive brings the records of dead letters back to the topics they come from, each once: also after a crash, and also
// when several selections took some of them. A run is the only member of its selection's consumer group, whose offsets in the
// dead-letter topics are its progress. Before letters go back it commits where the logs end that they go to (the write-ahead marker): a run
// that finds such a commit looks there for what has arrived.
//
//	run.go        Run, One: the whole of a re-drive, and one letter alone
//	options.go    Options, Report: what goes back, and what became of it
//	selection.go  Selection: which letters; its text names the group
//	groups.go     the groups of all selections, what they have committed, who is a member
//	member.go     being the only member
//	redrive.go    the driver: letters driven before, partition by partition
//	take.go       which letters go into a batch
//	batch.go     batch: letters that go back under one commit
//	filter.go     letters that are of no record stay
//	original.go   the records that letters say they come from
//	drive.go      sending a batch: marker, requests, commit
//	marker.go     the metadata of a commit before a batch
//	arrived.go    what of a begun batch has arrived
//	returned.go   the record that a letter goes back as
//	target.go     writing to the topics, and what they refuse
package redrive
