// Package hostile gives the real program what nobody sends in good faith: records that ask for a thousand times their size,
// record batches that no library writes, dead-letter topics that take no letter, brokers that answer nonsense. The program
// must stay within its memory, go on, store all other records, and say what is wrong and what to do about it; also when it
// is started again in the middle.
//
// The tests run on the Kafka that E2E_KAFKA_BROKERS names, or on an embedded one; see the package e2e.
package hostile
