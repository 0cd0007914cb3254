// Package refuser is a MongoDB that refuses what a test tells it to: a proxy of the wire protocol in front of a server that
// has no validators, no privileges to lack and no full documents of its own. What it does not refuse reaches the server.
package refuser
