// Package check judges what is stored. It reads the source topic, the dead-letter topic, the committed offsets and the
// buckets directly, compares them with what the events' maker says must have become of each, and shares no code with the
// program it judges: its own Kafka client, its own reading of buckets, positions, minima and maxima.
package check
