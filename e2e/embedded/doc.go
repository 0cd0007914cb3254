// Package embedded runs two servers inside a Go process: a Kafka (kfake) and a MongoDB (FerretDB on SQLite). They need neither
// installation nor network, and live as long as the process that started them.
//
// Both are imitations. kfake speaks the protocol without replication or a disk. FerretDB scans a collection for any filter other
// than _id, so it suits some thousand documents. It loses some of several concurrent changes, so this package lets it make one at
// a time.
package embedded
