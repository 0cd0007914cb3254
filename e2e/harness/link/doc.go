// Package link is the network between a client and one server, in the hands of a test: a proxy of TCP connections that
// can be cut, refused, slowed down, held like a black hole, or robbed of its answers.
package link
