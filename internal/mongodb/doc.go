// Package mongodb is the client of MongoDB: its connections, when a command may be sent on them, and the meaning of answers.
//
// The other packages read and write through Collection. Each call is one command, sent at most once, and its error says what is
// known afterwards. A write has the write concern majority with journal, and a read sees what a majority has. The protocol of the
// partitions uses only Collection and Session, so that it runs unchanged against a model. Commands that no Collection has, such
// as those for indexes and views, go through Database.Driver.
//
// The driver never sends a command twice here. Its connections use no compression, because the guard reads each message. The
// guard sends a write of buckets or claims only while the lease holds, and asks the lease before each piece that it hands to the
// kernel (E7). When the lease lapses within a message, the guard closes the connection, so no server executes the message.
//
// A closed list classifies the codes. A code that is not on it counts as unknown, and never as a refusal. Failure turns an error
// into an outage that may pass by itself, or a refusal that an operator must end.
//
// Errors about connections name the address, the cause and the remedy instead of the driver's words. They quote nothing of a URI,
// because any part of it may belong to a password.
//
// The files:
//
//	the port       collection.go (Collection, Session, and helpers for their users)
//	               driver.go (the same on a real server, bulk calls of small writes)
//	               errors.go (what MongoDB's codes mean, the errors that callers tell apart, missing rights by name)
//	a connection   connection.go (connecting, TLS; which messages the lease governs, stopping them)
//	               socket_*.go (options of the socket, system calls that send a part of a message)
//	a database     database.go (opening and greeting), explain.go (why no server can be reached or answers, how long reads wait)
package mongodb
