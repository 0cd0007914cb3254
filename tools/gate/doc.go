// Package gate tests .ci/run with imitations of make, go and the servers. The gate must report every failure on the way as its
// own verdict. It must try again only steps that may be repeated.
package gate
