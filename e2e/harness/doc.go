// Package harness runs the real program as a person would: its binary as a child process, set by environment variables,
// stopped by signals, watched through its HTTP endpoints, against given servers or embedded ones.
package harness
