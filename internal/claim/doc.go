// Package claim has the words and rules of owning a partition, without any I/O. They cover the claim in its partition document,
// the metadata of a commit, and the offset at which an owner begins. The worker, "waterwheel check" and "waterwheel verify" use
// the same rules, so they always agree.
//
//	claim.go       Token, Claim; ErrOtherOwner, ErrLapsed, ErrNoTurn
//	document.go    Document: a partition document, its fields; Grace, Pending: how long writes may still be executed
//	provenance.go  Provenance: the metadata of a commit; Committed, Meaning: what a commit means to a pipeline
//	content.go     LostContentError: a collection that is not set up although measurements were stored there
//	compaction.go  Segment, Segments, Compaction: measurements of many series in one document, on their way into buckets
//	start.go       Facts, Start: where a partition begins
package claim
