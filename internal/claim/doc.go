// Package claim has the words and rules of owning a partition, without any I/O: the claim in its partition document, what a
// commit's metadata says, and where an owner begins to read. The worker, "waterwheel check" and "waterwheel verify" ask the same
// rules, so that they cannot tell different stories.
//
//	claim.go       Token, Claim, Document; ErrOtherOwner, ErrLapsed, ErrNoTurn
//	provenance.go  Provenance: what the metadata of a commit says; Committed, Meaning: what it means to a pipeline
//	compaction.go  Segment, Segments, Compaction: measurements of many series in one document, on their way into buckets
//	start.go       Facts, Start: where a partition begins
package claim
