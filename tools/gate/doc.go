// Package gate tests .ci/run with a make, a go and servers that only pretend: whatever fails on the way must be the gate's own
// verdict, and only what may be tried again is.
package gate
