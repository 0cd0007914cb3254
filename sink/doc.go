// Package sink keeps buckets in MongoDB: it sets the collections up, claims partitions, reads which positions are stored,
// sends writes, finds out what became of unanswered ones, and looks stored buckets up.
//
// Every method is one attempt that says exactly what is known afterwards; retries, waits and back-off are the caller's.
// Nothing here decides what a bucket holds (package bucketer) or when it is written (package pipeline).
//
// The way of a write: Partition.Send splits writes into bulk calls on a Collection; a Collection of the driver sends each
// once; the connection under it asks the lease again before every system call that sends of it (guard.go). Answers are classified by closed
// lists (classify.go), and what they leave unknown is read back behind a fence (resolve.go).
//
// The partition protocol knows MongoDB only through Collection and Session, so that it runs unchanged against a model.
package sink
