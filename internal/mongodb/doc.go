// Package mongodb is the client of MongoDB: its connections, what may be sent on them and when, and what its answers mean.
//
// Collection is how the other packages read and write: each call is one command, sent at most once, and its error says what is
// known afterwards. A write has the write concern majority with journal, and a read sees what a majority has. The packages above
// know MongoDB through Collection and Session only, as far as the protocol of the partitions goes, so that it runs unchanged
// against a model. Commands that no Collection has, such as those for indexes and views, go through Database.Driver.
//
// The driver never sends a command twice here, and on its connections nothing is compressed: the guard reads each message. The
// guard lets a write of buckets or claims out only while the lease holds, and asks the lease again before each piece that it hands to the
// kernel (E7). A connection on which the lease has lapsed is closed within the message, so no server executes it.
//
// Codes are classified by a closed list. What is on no list counts as unknown, and never as a refusal. Failure makes of an error what
// callers act on: an outage that may pass by itself, or a refusal that an operator must end.
//
// Errors about connections name the address and the cause, and what to do about it, in place of the driver's words. Nothing of a URI
// is quoted, since any part of it may be of a password.
//
// The files:
//
//	the port       collection.go (Collection, Session, and what every user of them needs)
//	               driver.go, bulk.go (both on a real server; bulk calls of small writes)
//	               silence.go (reads whose answers are lost)
//	               codes.go, errors.go (what MongoDB's codes mean, the errors that callers tell apart, missing rights by name)
//	a connection   dial.go, socket_*.go (connecting, TLS, options of the socket)
//	               guard.go, pieces_*.go (which messages the lease governs, stopping them)
//	a database     database.go, explain.go, reach.go (opening and greeting, saying why nobody can be reached)
package mongodb
