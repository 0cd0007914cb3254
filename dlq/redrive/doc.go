// Package redrive sends the records of dead letters back to the topics they come from, each once. That also holds after a crash,
// and when several selections cover the same letter. A run is the only member of its selection's consumer group. The group's
// offsets in the dead-letter topics are its progress. Before letters go back, the run commits the ends of the logs that they go
// to (the write-ahead marker). A run that finds such a commit searches those logs for letters that have arrived.
//
//	redrive.go   Options, Selection, Report; Run, One: a whole re-drive, and one letter alone
//	member.go    being the only member; the groups of all selections, their commits, and their members
//	drive.go     the driver: letters driven before, partition by partition; sending a batch: marker, requests, commit
//	batch.go     batch: letters that go back under one commit; the records that they go back as, and what the topics refuse
//	original.go  the records that letters say they come from; the marker of a batch, and which of its letters have arrived
package redrive
