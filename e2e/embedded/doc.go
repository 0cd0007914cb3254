// Package embedded runs the two servers waterwheel needs inside a Go process: a Kafka (kfake) and a MongoDB (FerretDB on
// SQLite). They need neither installation nor network, and live as long as the process that started them.
//
// Neither is the real thing. kfake speaks the protocol without replication or a disk; FerretDB scans a collection for any
// filter beyond _id, so it is for some thousand documents, and takes one change at a time, for it would lose some of several.
package embedded
