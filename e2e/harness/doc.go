// Package harness runs the real program as an operator does. The binary is a child process, configured by environment variables,
// stopped by signals, and observed through its HTTP endpoints. It works with given or embedded servers.
package harness
