package config

import "net"

// serve checks the settings of reading over HTTP.
func (k *checker) serve() {
	s := k.Serve
	if _, port, err := net.SplitHostPort(s.Addr); err != nil || !isPort(port, 0) {
		k.fail("SERVE_ADDR", s.Addr, "not an address to listen at: write host:port or :port, as :9465")
	}
	k.keyPair("SERVE_TLS", s.CertFile, s.KeyFile)
}
