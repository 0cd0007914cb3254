// Package bucketer is the bucket catalog of one partition: which bucket a measurement belongs to, when a bucket is full,
// what of it is written, and what must be asked of the database before a bucket is opened. It takes the decisions of
// MongoDB's own catalog for time series collections.
//
// It is pure and has one owner: no context, no clock, no logger, no goroutine, no lock. What it decides depends on the
// measurements and the answers it was given, in their order, and on nothing else.
package bucketer
