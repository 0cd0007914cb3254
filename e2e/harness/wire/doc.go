// Package wire reads and makes messages of MongoDB's protocol, as far as the proxies of the tests look into them.
package wire
