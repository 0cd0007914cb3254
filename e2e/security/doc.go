// Package security runs the real program against a real Kafka that requires logins, certificates and rights. With correct
// credentials the program works over each kind of listener. With wrong ones it ends at the start, with one message that says what
// to do.
//
//	E2E_KAFKA_LIBS=/opt/kafka/libs go test ./security
//
// E2E_KAFKA_LIBS is the folder of Kafka's jars. Without it the tests are skipped. E2E_MONGODB_URI names a MongoDB, as in the
// package e2e. The tests make the certificates, users and rights.
package security
