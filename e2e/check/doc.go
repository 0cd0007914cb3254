// Package check judges the stored data. It reads the source topic, the dead-letter topic, the committed offsets and the buckets
// directly. It compares them with the expectations of the events' maker. It shares no code with the program it judges. It has its
// own Kafka client, and its own code for buckets, positions, minima and maxima.
package check
