// Package refuser imitates a MongoDB that refuses writes as a test tells it to. It is a proxy of the wire protocol in front of a
// server that has no validators, privileges or full disk of its own. All other messages reach the server.
package refuser
