//go:build !race

package pipeline_test

// underRace: the race detector makes everything ten times slower.
const underRace = false
