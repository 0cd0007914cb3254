// Package redrive sends the records of dead letters back to the topics they come from, each once. That also holds after a crash,
// and when several selections cover the same letter. A run is the only member of its selection's consumer group. The group's
// offsets in the dead-letter topics are its progress. Before letters go back, the run commits the ends of the logs that they go
// to (the write-ahead marker). A run that finds such a commit searches those logs for letters that have arrived.
//
//	run.go        Run, One: a whole re-drive, and one letter alone
//	options.go    Options, Report: what goes back, and what became of it
//	selection.go  Selection: which letters; its text names the group
//	groups.go     the groups of all selections, their commits, and their members
//	member.go     being the only member
//	redrive.go    the driver: letters driven before, partition by partition
//	batch.go      batch: letters that go back under one commit, and which go into it
//	original.go   the records that letters say they come from; letters that belong to no record stay
//	drive.go      sending a batch: marker, requests, commit
//	marker.go     the metadata of a commit before a batch, and which letters of a begun batch have arrived
//	target.go     the record that a letter goes back as; writing to the topics, and what they refuse
package redrive
