// Package late imitates a MongoDB that writes buckets slowly. It is a proxy of the wire protocol in front of a server. It delays
// the answers to inserts and updates of buckets, and forwards all others at once. To the client the server looks alive but busy.
package late
