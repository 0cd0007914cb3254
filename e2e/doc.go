// Package e2e holds the end-to-end tests. They run the real binary as a child process between a Kafka and a MongoDB. A checker
// that shares no code with the binary compares all stored documents with all produced records.
//
//	go test ./...                     with embedded servers
//	E2E_KAFKA_BROKERS=host:port       with this Kafka instead of the embedded one
//	E2E_MONGODB_URI=mongodb://...     with this MongoDB instead of the embedded one
//	E2E_KAFKA_TOOL="command args"     also with Kafka's own Java programs: the command runs the class given to it
//	E2E_KAFKA_CLUSTER="command dir"   also a rolling restart of the cluster of E2E_KAFKA_BROKERS: "command stop dir --node 1"
//	                                  and "command up dir --node 1" stop and start a broker
//	E2E_KAFKA_LIBS=/opt/kafka/libs    also what needs a Kafka with settings of its own, started from these jars
//	E2E_FORMER_CONSUMER=path          also a rolling upgrade from this former version of the program, and back
//	E2E_SEGMENTS=on                   with segments where the default of SEGMENTS has none: on a server without views
//	prometheus, promtool on PATH      also what the rules and the dashboard need: Debian's package prometheus has both
//	go test . -consumer.race          with the binary under the race detector
//	go test . -run TestStorage -v -storage.records 1000000
//	                                  what a measurement takes on the disk of E2E_MONGODB_URI, by compressor and clustering
//
// Further packages complement the tests. Package chaos with cmd/chaos (make chaos) disturbs consumers and judges what they
// stored. Package continuity (make continuity) measures how long partitions stand still when consumers come, go or die. Package
// bench (make bench-e2e) measures the speed of the consumers. Both measurements are tests with flags. Chaos and bench compare
// waterwheel with the consumer of package naive. Package check judges, package events makes events with their fates, and package
// harness runs servers and the program.
//
// Topics and databases have names of their own and are removed at the end. The embedded MongoDB scans collections, so the tests
// are smaller there than on a given one. The package demo in cmd/demo shows the same to a person.
package e2e
