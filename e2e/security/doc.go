// Package security runs the real program against a real Kafka that wants logins, certificates and rights. Right ones
// work over each kind of listener, wrong ones end it at the start with one message that says what to do.
//
//	E2E_KAFKA_LIBS=/opt/kafka/libs go test ./security
//
// E2E_KAFKA_LIBS is the folder of Kafka's jars; without it nothing is tried. E2E_MONGODB_URI names a MongoDB as everywhere.
// Certificates, users and rights are made by the tests.
package security
