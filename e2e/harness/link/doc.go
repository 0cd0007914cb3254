// Package link is the network between a client and one server, under the control of a test. It is a proxy of TCP connections. A
// test can cut, refuse, slow down or hold them, or make them lose the answers.
package link
