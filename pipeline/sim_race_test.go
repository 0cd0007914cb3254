//go:build race

package pipeline_test

// underRace reports whether the race detector is on, which makes everything ten times slower.
const underRace = true
