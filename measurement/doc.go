// Package measurement turns the bytes of a Kafka record into measurements whose fields are BSON already, or into an
// error with a reason of a closed set. It is pure: the same bytes and options give the same answer, at any time.
package measurement
