// Package wire reads and makes messages of MongoDB's wire protocol, as far as the tests' proxies need them.
package wire
