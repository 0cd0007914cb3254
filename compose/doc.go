// Package compose holds what runs the consumer in containers, with a Kafka and a MongoDB beside it. The package itself is only
// the test that these files fit the program.
package compose
