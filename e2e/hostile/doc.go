// Package hostile gives the real program input that nobody sends in good faith. There are records that need a thousand times their
// size in memory, and record batches that no library writes. There are dead-letter topics that take no letter, and brokers that
// answer nonsense. The program must stay within its memory, go on, store all other records, and report the problem and its remedy.
// The same holds when it is restarted in between.
//
// The tests run on the Kafka that E2E_KAFKA_BROKERS names, or on an embedded one (see the package e2e).
package hostile
